/**
 * The messages of the protocol, in both flavours, through protobufjs reflection over the published
 * .proto files: an implementation that shares nothing with the one under test.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import protobuf from 'protobufjs';

const require = createRequire(import.meta.url);
const deps = path.join(path.dirname(require.resolve('@grpc/grpc-js-xds/package.json')), 'deps');
const includes = [
  ...['envoy-api', 'xds', 'googleapis', 'protoc-gen-validate'].map((name) => path.join(deps, name)),
  path.dirname(require.resolve('protobufjs/package.json')),
];

const root = new protobuf.Root();
root.resolvePath = (_origin, target) =>
  includes.map((folder) => path.join(folder, target)).find((file) => existsSync(file)) ?? null;
root.loadSync('envoy/service/discovery/v3/discovery.proto', { keepCase: true });

const discovery = root.lookup('envoy.service.discovery.v3') as protobuf.Namespace;
const responseType = discovery.lookupType('DeltaDiscoveryResponse');
const requestType = discovery.lookupType('DeltaDiscoveryRequest');
// TP3 is newer than the shipped files.
discovery.add(
  new protobuf.Type('ResourceError')
    .add(new protobuf.Field('resource_name', 1, 'ResourceName'))
    .add(new protobuf.Field('error_detail', 2, 'google.rpc.Status')),
);
responseType.add(new protobuf.Field('resource_errors', 9, 'ResourceError', 'repeated'));
const sotwResponseType = discovery.lookupType('DiscoveryResponse');
sotwResponseType.add(new protobuf.Field('resource_errors', 7, 'ResourceError', 'repeated'));
const sotwRequestType = discovery.lookupType('DiscoveryRequest');
const resourceType = discovery.lookupType('Resource');
const constraintsType = discovery.lookupType('DynamicParameterConstraints');
root.resolveAll();

export interface SentResource {
  readonly name: string;
  readonly version: string;
  /** Absent: a heartbeat. */
  readonly body?: Uint8Array;
  /** The type of the Any, when it differs from that of the response. */
  readonly typeUrl?: string;
  readonly ttl?: { readonly seconds: number; readonly nanos: number };
  /** TP2: sent under a `ResourceName`. */
  readonly constraints?: ConstraintFields;
}

/** TP2 `DynamicParameterConstraints`, with the names of the .proto file. */
export interface ConstraintFields {
  readonly constraint?: {
    readonly key: string;
    readonly value?: string;
    readonly exists?: object;
  };
  readonly or_constraints?: { readonly constraints: readonly ConstraintFields[] };
  readonly and_constraints?: { readonly constraints: readonly ConstraintFields[] };
  readonly not_constraints?: ConstraintFields;
}

export const encodeConstraints = (fields: ConstraintFields): Uint8Array =>
  constraintsType.encode(constraintsType.fromObject({ ...fields })).finish();

/** The constraints of `key=value`. */
export const onlyFor = (key: string, value: string): ConstraintFields => ({
  constraint: { key, value },
});

export interface SentResponse {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly resources?: readonly SentResource[];
  readonly removed?: readonly string[];
  readonly removedVariants?: readonly { name: string; constraints?: ConstraintFields }[];
  readonly errors?: readonly { name: string; code: number; message?: string }[];
}

const variantFields = (name: string, constraints: ConstraintFields | undefined): object => ({
  name,
  ...(constraints && { dynamic_parameter_constraints: constraints }),
});

export function encodeResponse(response: SentResponse): Uint8Array {
  const { typeUrl, nonce, resources = [], removed = [], errors = [] } = response;
  const { removedVariants = [] } = response;
  const fields = {
    type_url: typeUrl,
    nonce,
    resources: resources.map(
      ({ name, version, body, ttl, constraints, typeUrl: inner = typeUrl }) => ({
        ...(constraints ? { resource_name: variantFields(name, constraints) } : { name }),
        version,
        ...(body && { resource: { type_url: inner, value: body } }),
        ...(ttl && { ttl }),
      }),
    ),
    removed_resources: removed,
    removed_resource_names: removedVariants.map(({ name, constraints }) =>
      variantFields(name, constraints),
    ),
    resource_errors: errors.map(({ name, code, message = '' }) => ({
      resource_name: { name },
      error_detail: { code, message },
    })),
  };
  return responseType.encode(responseType.fromObject(fields)).finish();
}

export interface ReceivedRequest {
  readonly typeUrl: string;
  readonly hasNode: boolean;
  /** Empty without a Node. */
  readonly nodeId: string;
  readonly subscribe: readonly string[];
  readonly unsubscribe: readonly string[];
  /** TP2. */
  readonly locators: readonly ReceivedLocator[];
  readonly locatorsLeft: readonly ReceivedLocator[];
  readonly initialVersions: Readonly<Record<string, string>>;
  readonly nonce: string;
  readonly error: { readonly code: number; readonly message: string } | undefined;
}

export interface ReceivedLocator {
  readonly name: string;
  readonly dynamic_parameters: Readonly<Record<string, string>>;
}

export function decodeRequest(bytes: Uint8Array): ReceivedRequest {
  const fields = requestType.toObject(requestType.decode(bytes), {
    arrays: true,
    objects: true,
    defaults: true,
  }) as {
    node: { readonly id: string } | null;
    type_url: string;
    resource_names_subscribe: string[];
    resource_names_unsubscribe: string[];
    resource_locators_subscribe: ReceivedLocator[];
    resource_locators_unsubscribe: ReceivedLocator[];
    initial_resource_versions: Record<string, string>;
    response_nonce: string;
    error_detail: { code: number; message: string } | null;
  };
  return {
    typeUrl: fields.type_url,
    hasNode: fields.node !== null,
    nodeId: fields.node?.id ?? '',
    subscribe: fields.resource_names_subscribe,
    unsubscribe: fields.resource_names_unsubscribe,
    locators: fields.resource_locators_subscribe,
    locatorsLeft: fields.resource_locators_unsubscribe,
    initialVersions: fields.initial_resource_versions,
    nonce: fields.response_nonce,
    error: fields.error_detail ?? undefined,
  };
}

export function encodeRequest(fields: Readonly<Record<string, unknown>>): Uint8Array {
  return requestType.encode(requestType.fromObject({ ...fields })).finish();
}

/** The response as plain data, with the names of the .proto file. */
export function decodeResponse(bytes: Uint8Array): Readonly<Record<string, unknown>> {
  const options = { arrays: true, defaults: true, longs: Number };
  return responseType.toObject(responseType.decode(bytes), options);
}

// ---- state of the world -----------------------------------------------------------------------

const WRAPPER = 'type.googleapis.com/envoy.service.discovery.v3.Resource';

export interface SotwResponse {
  readonly typeUrl: string;
  readonly versionInfo: string;
  readonly nonce: string;
  /** `name` is that of the wrapper, if any. */
  readonly resources: readonly {
    readonly name: string | undefined;
    readonly version: string | undefined;
    readonly typeUrl: string;
    readonly body: Buffer;
  }[];
  readonly errors: readonly { readonly name: string; readonly code: number }[];
}

/** With the names of the .proto file. */
export function encodeSotwRequest(fields: Readonly<Record<string, unknown>>): Uint8Array {
  return sotwRequestType.encode(sotwRequestType.fromObject({ ...fields })).finish();
}

interface AnyFields {
  readonly type_url: string;
  readonly value: Uint8Array;
}

export function decodeSotwResponse(bytes: Uint8Array): SotwResponse {
  const options = { arrays: true, defaults: true, longs: Number };
  const fields = sotwResponseType.toObject(sotwResponseType.decode(bytes), options) as {
    readonly type_url: string;
    readonly version_info: string;
    readonly nonce: string;
    readonly resources: readonly AnyFields[];
    readonly resource_errors: readonly {
      readonly resource_name: { readonly name: string };
      readonly error_detail: { readonly code: number };
    }[];
  };
  return {
    typeUrl: fields.type_url,
    versionInfo: fields.version_info,
    nonce: fields.nonce,
    resources: fields.resources.map((any) => {
      if (any.type_url !== WRAPPER) {
        const body = Buffer.from(any.value);
        return { name: undefined, version: undefined, typeUrl: any.type_url, body };
      }
      const wrapped = resourceType.toObject(resourceType.decode(any.value), options) as {
        readonly name: string;
        readonly version: string;
        readonly resource: AnyFields;
      };
      const { name, version, resource } = wrapped;
      return { name, version, typeUrl: resource.type_url, body: Buffer.from(resource.value) };
    }),
    errors: fields.resource_errors.map(({ resource_name, error_detail }) => ({
      name: resource_name.name,
      code: error_detail.code,
    })),
  };
}
