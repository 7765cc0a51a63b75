/**
 * Determines the node group of a client, and whether the limit of node groups allows it. The stream
 * keeps the identity of the client as it was read; the authority map in effect decides by which parts of
 * it groups differ.
 */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import {
  appliesTo,
  SecretHeaders,
  type ClientCertificate,
  type ClientIdentity,
} from '../../../authorities/index.js';
import type { OldStyleSpec } from '../../../config/model.js';
import { canonicalNode } from '../../../protos/canonical-node.js';
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import { commonNode } from '../../../protos/forwarded-node.js';
import { readClientNode, type ClientNode } from '../../../protos/node-codec.js';
import {
  metadataKeysOf,
  pickFields,
  ruleOfFields,
  scopeByRule,
  type ScopeRule,
} from '../../../protos/node-scope.js';
import type { ClientScope } from './asked-name.js';

/**
 * The gateway keeps at most this much of a Node. It keeps the whole Node if a source gets it or groups differ by it,
 * otherwise only the fields of `differ_by`. The extensions that an Envoy lists take 60 kB; meshes add metadata of tens of kB.
 */
const MAX_NODE_BYTES = 262_144;

/** Of each text of the Node that the gateway keeps as long as the stream lives. Characters. */
const MAX_NODE_TEXT = 1_024;

/** The part of a client's Node that the gateway keeps beside the fields of `differ_by`. */
export interface KeptNode extends Pick<
  ClientNode,
  'id' | 'cluster' | 'userAgentName' | 'malformed'
> {
  readonly isMissing?: true;
  /** The id is longer than what is kept of it, so it proves nothing. */
  readonly isIdCut: boolean;
}

/** What the connection of a client says of it, beside the Node. */
export interface ConnectionIdentity {
  /** The values of a header (lower case) in their order; empty: none. Secrets. */
  headerValues(key: string): readonly string[];
  /** Undefined: no verified certificate. */
  readonly certificate: ClientCertificate | undefined;
}

/** The identity of a client, and the rule by which it was read. */
export interface GroupedNode {
  /** Its texts are cut off after 1,024 characters. */
  readonly node: KeptNode;
  readonly rule: ScopeRule;
  readonly identity: ClientIdentity;
  /** A hash of the canonical encoding of the {@link commonNode}. Present with `wholeNode` in the rule. */
  readonly digest?: Uint8Array | undefined;
  readonly isTooLarge: boolean;
}

export interface NodeGroupRoom {
  readonly maxNodeGroups: number;
  /** Number of groups in use. */
  readonly scopeCount: number;
  hasScope(scope: string): boolean;
  /** A client enters a group that is not in use. @returns why its peer may not; absent: it may */
  enter?(scope: string): RpcStatus | undefined;
}

const NO_NODE: ClientNode & KeptNode = {
  id: '',
  cluster: '',
  userAgentName: '',
  metadata: {},
  malformed: false,
  isMissing: true,
  isIdCut: false,
};

/** A slice would keep all of the text. */
const clipped = (text: string): string =>
  text.length <= MAX_NODE_TEXT ? text : Buffer.from(text.slice(0, MAX_NODE_TEXT)).toString();

const keptOf = ({ id, cluster, userAgentName, malformed }: ClientNode): KeptNode => ({
  id: clipped(id),
  cluster: clipped(cluster),
  userAgentName: clipped(userAgentName),
  malformed,
  isIdCut: id.length > MAX_NODE_TEXT,
});

const NO_CONNECTION: ConnectionIdentity = { headerValues: () => [], certificate: undefined };

const NO_FIELDS: ScopeRule = ruleOfFields([]);

function ruleOf(oldStyle: OldStyleSpec | undefined): ScopeRule {
  if (!oldStyle) return NO_FIELDS;
  const { rule, differBy } = oldStyle;
  if (rule) return rule;
  return differBy === 'all' ? { ...NO_FIELDS, wholeNode: true } : ruleOfFields(differBy);
}

/**
 * @param bytes the encoded Node of the first request, if it had one. Copied if it is kept.
 */
export function readGroupedNode(
  bytes: Uint8Array | undefined,
  oldStyle: OldStyleSpec | undefined,
  connection: ConnectionIdentity = NO_CONNECTION,
): GroupedNode {
  const rule = ruleOf(oldStyle);
  const read = bytes ? readClientNode(bytes, metadataKeysOf(rule.fields)) : NO_NODE;
  const keepsNode = rule.wholeNode || rule.forward !== undefined;
  const fields = pickFields(read, rule.fields);
  const isTooLarge =
    (bytes?.length ?? 0) > MAX_NODE_BYTES &&
    (keepsNode || JSON.stringify(fields).length > MAX_NODE_BYTES);
  const digest = rule.wholeNode && !isTooLarge ? digestOf(bytes) : undefined;
  const isUnreadable = rule.wholeNode && !isTooLarge && digest === undefined;
  const kept = bytes ? keptOf(read) : NO_NODE;
  return {
    node: isUnreadable ? { ...kept, malformed: true } : kept,
    rule,
    identity: {
      fields: isTooLarge ? {} : fields,
      ...(keepsNode && !isTooLarge ? { node: Uint8Array.from(bytes ?? []) } : {}),
      headers: readHeaders(rule, connection),
      ...(rule.certificate === 'none' ? {} : { certificate: connection.certificate }),
    },
    digest,
    isTooLarge,
  };
}

/** @returns undefined if the bytes are not a Node */
function digestOf(bytes: Uint8Array | undefined): Uint8Array | undefined {
  const canonical = canonicalNode(commonNode(bytes ?? new Uint8Array()));
  return canonical && createHash('sha256').update(canonical).digest();
}

const NO_HEADERS = new SecretHeaders();

function readHeaders({ headers }: ScopeRule, connection: ConnectionIdentity): SecretHeaders {
  if (headers.length === 0) return NO_HEADERS;
  const read = headers.map((key) => [key, connection.headerValues(key)] as const);
  return new SecretHeaders(new Map(read.filter(([, values]) => values.length > 0)));
}

export function clientScopeOf(
  grouped: GroupedNode,
  oldStyle: OldStyleSpec | undefined,
  room: NodeGroupRoom,
): ClientScope {
  if (!oldStyle) return { kind: 'not_served' };
  const { node, rule, identity } = grouped;
  if (!isDeepStrictEqual(rule, ruleOf(oldStyle))) {
    return refused(STATUS_CODE.unavailable, 'the node groups changed: reconnect');
  }
  const refusal = refusalOf(grouped);
  if (refusal) return refusal;
  if (oldStyle.servedBy.length > 0 && !isServed(oldStyle, identity)) {
    return { kind: 'not_served', reason: NOT_FOR_CLIENT };
  }
  const scope = scopeByRule(
    {
      node: { ...identity.fields, ...(rule.wholeNode ? { id: node.id } : {}) },
      wholeNode: grouped.digest,
      headers: identity.headers.reveal(),
      certificate: certificateText(identity.certificate, rule),
    },
    rule,
  );
  if (!room.hasScope(scope) && room.scopeCount >= room.maxNodeGroups) {
    return refused(
      STATUS_CODE.resourceExhausted,
      `more than ${room.maxNodeGroups} node groups (${groupingWords(rule)})`,
    );
  }
  const status = room.hasScope(scope) ? undefined : room.enter?.(scope);
  return status ? { kind: 'refused', status } : { kind: 'scope', scope };
}

const NOT_FOR_CLIENT =
  'no entry of old_style_names.served_by applies to this client: no "for" matches its Node';

const isServed = ({ servedBy }: OldStyleSpec, { fields }: ClientIdentity): boolean =>
  servedBy.some((entry) => appliesTo(entry, fields));

function refusalOf({ node, rule, isTooLarge }: GroupedNode): ClientScope | undefined {
  if (isTooLarge) {
    const most = `${MAX_NODE_BYTES / 1_024} KiB`;
    return refused(STATUS_CODE.invalidArgument, `the Node exceeds ${most}`);
  }
  const isNeeded = rule.fields.length > 0 || rule.wholeNode || rule.forward !== undefined;
  if (!node.malformed || !isNeeded) return undefined;
  return refused(STATUS_CODE.invalidArgument, 'the Node cannot be read');
}

/** The names alone: a renewed certificate is the same identity. `by` differs between instances. */
function certificateText(
  certificate: ClientCertificate | undefined,
  rule: ScopeRule,
): string | undefined {
  if (!certificate || rule.certificate === 'none') return undefined;
  const { uris, dnsNames, sha256, subject } = certificate;
  return JSON.stringify(
    rule.certificate === 'whole' ? [uris, dnsNames, sha256, subject] : [uris, dnsNames],
  );
}

function groupingWords({ fields, wholeNode, headers, certificate }: ScopeRule): string {
  const parts = [
    `old_style_names.differ_by: ${wholeNode ? 'all' : fields.join(', ')}`,
    ...(headers.length > 0 ? [`headers: ${headers.join(', ')}`] : []),
    ...(certificate === 'none' ? [] : ['client certificates']),
  ];
  return parts.join('; ');
}

const refused = (code: number, message: string): ClientScope => ({
  kind: 'refused',
  status: { code, message },
});
