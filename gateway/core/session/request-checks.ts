/** What can be said of a request before its names are looked at. */
import type { DeltaRequest, SotwRequest } from '../../../protos/discovery.js';
import { maxLocatorBytes } from '../../../protos/resource-name.js';

/** Longest text that is taken: a locator, and more than any type or version needs. */
const isTooLong = (text: string): boolean => text.length > maxLocatorBytes;

function typeRefused(typeUrl: string): string | undefined {
  if (typeUrl === '') return 'type_url is empty';
  return isTooLong(typeUrl) ? 'type_url is too long' : undefined;
}

/** @returns what is wrong with the texts of a request, or undefined. */
export function sotwTextsRefused(request: SotwRequest): string | undefined {
  const { typeUrl, names, locators = [], versionInfo } = request;
  if (names.some(isTooLong) || locators.some(isTooLong)) return 'a name is too long';
  return isTooLong(versionInfo) ? 'version_info is too long' : typeRefused(typeUrl);
}

/** @returns what is wrong with the texts of a request, or undefined. */
export function textsRefused(request: DeltaRequest): string | undefined {
  const { typeUrl, subscribe, unsubscribe, locators = [], initialVersions } = request;
  const type = typeRefused(typeUrl);
  if (type !== undefined) return type;
  if ([subscribe, unsubscribe, locators].some((names) => names.some(isTooLong))) {
    return 'a name is too long';
  }
  for (const [name, version] of initialVersions) {
    if (isTooLong(name) || isTooLong(version)) return 'a name or version is too long';
  }
  return undefined;
}

/** It only acknowledges, or refuses. */
export const isPureAck = (request: DeltaRequest): boolean =>
  request.responseNonce !== '' &&
  request.subscribe.length === 0 &&
  request.unsubscribe.length === 0 &&
  request.locators === undefined;
