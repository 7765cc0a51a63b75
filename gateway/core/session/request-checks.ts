/** Validates the texts of a request before its names are parsed, and tells a client why a request ends its stream. */
import {
  STATUS_CODE,
  type Decoded,
  type DeltaRequest,
  type RpcStatus,
  type SotwRequest,
} from '../../../protos/discovery.js';
import { maxLocatorBytes, type ParameterizedName } from '../../../protos/resource-name.js';

/** Characters of a client's text in an error. */
const MAX_QUOTED = 200;

/** The longest accepted text is a locator; types and versions need less. */
const isTooLong = (text: string): boolean => text.length > maxLocatorBytes;
const isLocatorTooLong = ({ name, parameters }: ParameterizedName): boolean =>
  name.length + parameters.length > maxLocatorBytes;

function typeRefused(typeUrl: string): string | undefined {
  if (typeUrl === '') return 'type_url is empty';
  return isTooLong(typeUrl) ? 'type_url is too long' : undefined;
}

export type TypedRequest<Request> =
  | { readonly ok: true; readonly request: Request }
  /** Ends the stream. */
  | { readonly ok: false; readonly status: RpcStatus };

/**
 * A per-type method (CDS, EDS, …) serves one type, so its requests may leave out the type.
 *
 * @param methodType the type of the method; undefined: requests name their type (ADS)
 * @returns the request with its type
 */
export function typedRequest<Request extends { readonly typeUrl: string }>(
  request: Request,
  methodType: string | undefined,
): TypedRequest<Request> {
  const { typeUrl } = request;
  if (methodType === undefined || typeUrl === methodType) return { ok: true, request };
  if (typeUrl === '') return { ok: true, request: { ...request, typeUrl: methodType } };
  const message = `this method serves ${methodType}, not ${typeUrl.slice(0, MAX_QUOTED)}`;
  return { ok: false, status: { code: STATUS_CODE.invalidArgument, message } };
}

/** @returns why the request is invalid, or undefined. */
export function sotwTextsRefused(request: SotwRequest): string | undefined {
  const { typeUrl, names, locators = [], versionInfo } = request;
  if (names.some(isTooLong) || locators.some(isLocatorTooLong)) return 'a name is too long';
  return isTooLong(versionInfo) ? 'version_info is too long' : typeRefused(typeUrl);
}

/** @returns why the request is invalid, or undefined. */
export function textsRefused(request: DeltaRequest): string | undefined {
  const { typeUrl, subscribe, unsubscribe, locators, initialVersions } = request;
  const type = typeRefused(typeUrl);
  if (type !== undefined) return type;
  if ([subscribe, unsubscribe].some((names) => names.some(isTooLong))) return 'a name is too long';
  if (locators?.subscribe.some(isLocatorTooLong) || locators?.unsubscribe.some(isLocatorTooLong))
    return 'a name with its parameters is too long';
  for (const [name, version] of initialVersions) {
    if (isTooLong(name) || isTooLong(version)) return 'a name or version is too long';
  }
  return undefined;
}

/**
 * Ends the stream of a message that cannot be decoded. Only a client that asked for too much learns the reason.
 *
 * @param what the message
 */
export function statusOfUnreadable(
  what: 'request' | 'load report',
  { code, reason }: Extract<Decoded<unknown>, { ok: false }>,
): RpcStatus {
  return code === 'too_many'
    ? { code: STATUS_CODE.resourceExhausted, message: reason }
    : { code: STATUS_CODE.invalidArgument, message: `the ${what} cannot be read` };
}

/** Ends a stream that has more names than it may have, or takes as much memory as if it had. */
export const tooManyNames = (maxNames: number): RpcStatus => ({
  code: STATUS_CODE.resourceExhausted,
  message: `more than ${maxNames} names on one stream (limits.max_names_per_client)`,
});

/** The request is an ACK or a NACK and changes no subscription. */
export const isPureAck = (request: DeltaRequest): boolean =>
  request.responseNonce !== '' &&
  request.subscribe.length === 0 &&
  request.unsubscribe.length === 0 &&
  request.locators === undefined;
