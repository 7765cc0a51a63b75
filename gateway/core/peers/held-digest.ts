/**
 * A digest of the resources that an instance holds, updated with every change: per type and authority
 * the number of resources and the xor of a hash of each name with its version. If the clients of two
 * instances have the same subscriptions, equal digests mean equal resources. The hash is not
 * cryptographic: a forged equal digest only prevents a comparison.
 */
import type { ResourceName } from '../../../protos/resource-name.js';
import { TypedMap } from '../../../protos/typed-map.js';
import type { DigestRow } from './peer-message.js';

interface Row {
  readonly typeUrl: string;
  readonly authority: string;
  count: number;
  low: number;
  high: number;
  /** Number of subscribed names and globs. */
  asked: number;
}

const FNV_PRIME = 0x01000193;
const SEEDS = [0x811c9dc5, 0x050c5d1f] as const;

export class HeldDigest {
  readonly #rows = new TypedMap<Row>();

  /** @param before, after versions; absent: not held. */
  handle(
    typeUrl: string,
    name: ResourceName,
    before: string | undefined,
    after: string | undefined,
  ): void {
    const row = this.#rowOf(typeUrl, name.authority);
    if (before !== undefined) toggle(row, name.key, before);
    if (after !== undefined) toggle(row, name.key, after);
    row.count += Number(after !== undefined) - Number(before !== undefined);
    this.#dropIfIdle(row);
  }

  /**
   * Subscriptions without resources have a row too. So an instance without resources differs from an
   * instance that holds some, and receives a reply.
   */
  handleAsked(typeUrl: string, name: ResourceName, change: 1 | -1): void {
    const row = this.#rowOf(typeUrl, name.authority);
    row.asked += change;
    this.#dropIfIdle(row);
  }

  #rowOf(typeUrl: string, authority: string): Row {
    let row = this.#rows.get(typeUrl, authority);
    if (!row) {
      row = { typeUrl, authority, count: 0, low: 0, high: 0, asked: 0 };
      this.#rows.set(typeUrl, authority, row);
    }
    return row;
  }

  #dropIfIdle({ typeUrl, authority, count, asked }: Row): void {
    if (count === 0 && asked === 0) this.#rows.delete(typeUrl, authority);
  }

  row(typeUrl: string, authority: string): DigestRow | undefined {
    const row = this.#rows.get(typeUrl, authority);
    return row && told(row);
  }

  rows(): readonly DigestRow[] {
    return [...this.#rows.values()].map(told).sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  }
}

const told = ({ typeUrl, authority, count, low, high }: Row): DigestRow => ({
  typeUrl,
  authority,
  count,
  hash: hex(low) + hex(high),
});

function toggle(row: Row, key: string, version: string): void {
  row.low ^= fnv(fnv(SEEDS[0], key), version);
  row.high ^= fnv(fnv(SEEDS[1], version), key);
}

function fnv(seed: number, text: string): number {
  let hash = seed;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), FNV_PRIME);
  return hash;
}

const hex = (word: number): string => (word >>> 0).toString(16).padStart(8, '0');
const keyOf = ({ typeUrl, authority }: DigestRow): string => `${typeUrl} ${authority}`;
