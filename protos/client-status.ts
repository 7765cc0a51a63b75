/**
 * The messages of the client status service (CSDS, `envoy.service.status.v3`) as a management server uses
 * them. A response is joined from parts that are encoded one by one, so that a long one can be made in
 * slices of time: a repeated field may be concatenated (protobuf.dev, "Encoding").
 */
import { create, fromBinary, toBinary, toJson, type DescMessage } from '@bufbuild/protobuf';
import { envoyRegistry } from './envoy-registry.js';
import type { Decoded } from './discovery.js';
import { encodeVarint } from './protobuf-fields.js';

export const CLIENT_STATUS_SERVICE = 'envoy.service.status.v3.ClientStatusDiscoveryService';

/** `envoy.service.status.v3.ConfigStatus`: the view of the server. */
const CONFIG_STATUS = { SYNCED: 1, NOT_SENT: 2, STALE: 3, ERROR: 4 } as const;
/** `envoy.admin.v3.ClientResourceStatus`: the view of the client, as far as the server knows it. */
const CLIENT_STATUS = { UNKNOWN: 0, REQUESTED: 1, DOES_NOT_EXIST: 2, ACKED: 3, NACKED: 4 } as const;

/** `envoy.type.matcher.v3.StringMatcher`, without regular expressions. */
export interface TextMatcher {
  readonly kind: 'exact' | 'prefix' | 'suffix' | 'contains';
  readonly text: string;
  readonly ignoresCase: boolean;
}

export interface ClientStatusRequest {
  /** Of the ids of Nodes; one of them has to match. Empty: all clients. */
  readonly nodeIds: readonly TextMatcher[];
  readonly excludesContents: boolean;
}

export interface StatusAny {
  readonly typeUrl: string;
  readonly value: Uint8Array;
}

/** `ClientConfig.GenericXdsConfig`. */
export interface ResourceStatusRow {
  readonly typeUrl: string;
  readonly name: string;
  readonly version: string;
  readonly status: keyof typeof CONFIG_STATUS;
  readonly clientStatus: keyof typeof CLIENT_STATUS;
  /** Absent: not shown. */
  readonly content?: StatusAny | undefined;
  /** Of ERROR: what the client said, and when in Unix time. */
  readonly error?: { readonly details: string; readonly atMs: number } | undefined;
}

export interface ClientStatusNode {
  readonly id: string;
  readonly cluster: string;
}

/**
 * Decodes a `ClientStatusRequest`. A matcher that the gateway cannot apply makes it `malformed`: without it,
 * more clients would match.
 */
export function decodeClientStatusRequest(bytes: Uint8Array): Decoded<ClientStatusRequest> {
  try {
    const desc = descOf('envoy.service.status.v3.ClientStatusRequest');
    // Its Node may have extensions of unknown types, and the gateway does not need it.
    const message = Object.assign(fromBinary(desc, bytes), { node: undefined });
    const request = toJson(desc, message, { registry: envoyRegistry(), useProtoFieldName: true });
    const { node_matchers: matchers = [], exclude_resource_contents: excludes = false } =
      request as RequestJson;
    const nodeIds = matchers.map(textMatcherIn);
    return { ok: true, message: { nodeIds, excludesContents: excludes } };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { ok: false, code: 'malformed', reason };
  }
}

interface RequestJson {
  readonly node_matchers?: readonly NodeMatcherJson[];
  readonly exclude_resource_contents?: boolean;
}

interface NodeMatcherJson {
  readonly node_id?: Readonly<Record<string, string | boolean>>;
  readonly node_metadatas?: readonly unknown[];
}

function textMatcherIn({
  node_id: id,
  node_metadatas: metadata = [],
}: NodeMatcherJson): TextMatcher {
  if (metadata.length > 0) throw new Error('the gateway does not keep the metadata of Nodes');
  const { ignore_case: ignoresCase = false, ...patterns } = id ?? {};
  for (const kind of ['exact', 'prefix', 'suffix', 'contains'] as const) {
    const text = patterns[kind];
    if (typeof text === 'string') return { kind, text, ignoresCase: ignoresCase === true };
  }
  throw new Error('node_id has to have exact, prefix, suffix or contains');
}

export function matchesText({ kind, text, ignoresCase }: TextMatcher, value: string): boolean {
  const [pattern, subject] = ignoresCase
    ? [text.toLowerCase(), value.toLowerCase()]
    : [text, value];
  switch (kind) {
    case 'exact':
      return subject === pattern;
    case 'prefix':
      return subject.startsWith(pattern);
    case 'suffix':
      return subject.endsWith(pattern);
    case 'contains':
      return subject.includes(pattern);
  }
}

/** Encodes a row as a field of `ClientConfig`. */
export function encodeStatusRow(row: ResourceStatusRow): Uint8Array {
  const { error, content, typeUrl, name, version } = row;
  const body = encode('envoy.service.status.v3.ClientConfig.GenericXdsConfig', {
    typeUrl,
    name,
    versionInfo: version,
    configStatus: CONFIG_STATUS[row.status],
    clientStatus: CLIENT_STATUS[row.clientStatus],
    ...(content ? { xdsConfig: content } : {}),
    ...(error
      ? {
          errorState: {
            details: error.details,
            versionInfo: version,
            lastUpdateAttempt: timestampOf(error.atMs),
          },
        }
      : {}),
  });
  return Buffer.concat([lengthPrefix(TAG_GENERIC_CONFIGS, body.length), body]);
}

/**
 * Encodes the status of one client as a field of `ClientStatusResponse`. All of them, one after the other,
 * are the response.
 *
 * @param node undefined: the client sent none
 * @param scope tells the streams of one Node apart
 * @param rows of `encodeStatusRow`
 */
export function encodeClientConfig(
  node: ClientStatusNode | undefined,
  scope: string,
  rows: readonly Uint8Array[],
): Uint8Array {
  const head = encode('envoy.service.status.v3.ClientConfig', {
    ...(node ? { node: { id: node.id, cluster: node.cluster } } : {}),
    clientScope: scope,
  });
  const bytes = rows.reduce((sum, row) => sum + row.length, head.length);
  return Buffer.concat([lengthPrefix(TAG_CONFIG, bytes), head, ...rows]);
}

/** Field 3 of `ClientConfig`, and field 1 of `ClientStatusResponse`. */
const TAG_GENERIC_CONFIGS = 0x1a;
const TAG_CONFIG = 0x0a;

const lengthPrefix = (tag: number, bytes: number): Buffer =>
  Buffer.from([tag, ...encodeVarint(bytes)]);

const timestampOf = (atMs: number) => ({
  seconds: BigInt(Math.floor(atMs / 1_000)),
  nanos: Math.floor(atMs % 1_000) * 1_000_000,
});

const encode = (typeName: string, init: Readonly<Record<string, unknown>>): Uint8Array => {
  const desc = descOf(typeName);
  return toBinary(desc, create(desc, init));
};

function descOf(typeName: string): DescMessage {
  const desc = envoyRegistry().getMessage(typeName);
  if (desc === undefined) throw new Error(`the descriptor set lacks ${typeName}`);
  return desc;
}
