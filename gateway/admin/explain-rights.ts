/** Explains whether a client may ask for a name, and which entry of `clients` decides. */
import type { ClientRule } from '../../config/model.js';
import type { ResourceName } from '../../protos/resource-name.js';
import { ANONYMOUS, identityText, type Identity } from '../core/rights/requester.js';
import { rightsOf, verdictOf, type Rights } from '../core/rights/rights.js';

/** A client that an operator describes. */
export interface DescribedClient {
  /** See `identityFrom`. */
  readonly as: string;
  /** IP address; empty: none that an entry could match. */
  readonly address: string;
  readonly nodeId: string;
}

export interface RightsExplanation {
  readonly as: string;
  readonly isAllowed: boolean;
  /** The entry that decides, such as `clients[0]`. Absent: no entry matches, or the map has none. */
  readonly rule?: string;
  readonly reason: string;
  /** The client is told that the name does not exist. */
  readonly isHidden?: true;
}

export const AS_FORMS = 'spiffe://…, dns:NAME, jwt:SUB, jwt:{"claim":"value"} or anonymous';

/**
 * `spiffe://…` and `dns:NAME`: a name in the certificate. `jwt:SUB`: a token with that `sub`, or with the
 * claims of a JSON object.
 *
 * @returns undefined for any other text
 */
export function identityFrom(text: string): Identity | undefined {
  if (text === 'anonymous') return ANONYMOUS;
  if (text.startsWith('spiffe://')) return { kind: 'certificate', uris: [text], dnsNames: [] };
  const [, kind, rest = ''] = /^(dns|jwt):(.+)$/s.exec(text) ?? [];
  if (kind === 'dns') return { kind: 'certificate', uris: [], dnsNames: [rest] };
  if (kind !== 'jwt') return undefined;
  if (!rest.startsWith('{')) return { kind: 'jwt', claims: { sub: rest } };
  try {
    return { kind: 'jwt', claims: JSON.parse(rest) as Readonly<Record<string, unknown>> };
  } catch {
    return undefined;
  }
}

/** @returns undefined if `as` is not an identity */
export function explainRights(
  rules: readonly ClientRule[] | undefined,
  typeUrl: string,
  name: ResourceName,
  { as, address, nodeId }: DescribedClient,
): RightsExplanation | undefined {
  const identity = identityFrom(as);
  if (!identity) return undefined;
  const rights = rightsOf(rules, { identity, address }, nodeId);
  const verdict = verdictOf(rights, typeUrl, name);
  const isAllowed = verdict.kind === 'granted';
  return {
    as: identityText(identity),
    isAllowed,
    ...(rights.kind === 'rule' ? { rule: `clients[${rights.at}]` } : {}),
    reason: verdict.kind === 'granted' ? whyAllowed(rights) : verdict.status.message,
    ...(verdict.kind === 'denied' && verdict.isHidden ? { isHidden: true } : {}),
  };
}

const whyAllowed = ({ kind }: Rights): string =>
  kind === 'all'
    ? 'the map has no clients, so every client may ask for everything'
    : 'it allows the name';

/** One line for people. */
export function rightsText({ as, isAllowed, rule, reason, isHidden }: RightsExplanation): string {
  const verdict = isAllowed ? 'allowed' : 'denied';
  const by = rule === undefined ? '' : ` by ${rule}`;
  const hidden = isHidden ? ' (the client is told that it does not exist)' : '';
  return `  rights     ${as}: ${verdict}${by}: ${reason}${hidden}`;
}
