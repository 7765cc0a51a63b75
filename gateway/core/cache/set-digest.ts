/**
 * Digest of a set of resources, updated with each resource that enters or leaves, so its cost
 * follows the number of changes and not the size of the set. It is the sum of one hash per
 * resource: the same for the same set, at every instance, after every restart and in any order.
 *
 * A sum rather than an XOR: with XOR, a resource that occurs twice would cancel out. An attacker can
 * choose contents such that two sets have one sum. A resuming client then keeps the wrong set; the
 * attacker gains nothing else.
 */
import { hash } from 'node:crypto';
import type { Projection } from '../../../authorities/index.js';
import { wireText } from '../../../protos/resource-name.js';

const BITS = 128;
const BYTES = BITS / 8;

/** All clients share a projection, and so its hash. */
const shares = new WeakMap<Projection, bigint>();

function shareOf(projection: Projection): bigint {
  const known = shares.get(projection);
  if (known !== undefined) return known;
  const { name, version } = projection;
  // The version hashes type and content; some contents do not include their name.
  const hashed = hash('sha256', `${wireText(name.key)}\0${version}`, 'hex');
  const share = BigInt(`0x${hashed.slice(0, 2 * BYTES)}`);
  shares.set(projection, share);
  return share;
}

/** The last union: the clients of a fan-out hold the same sets. */
let lastSum = 0n;
let lastText = textOf(lastSum);

function textOf(sum: bigint): string {
  return Buffer.from(sum.toString(16).padStart(2 * BYTES, '0'), 'hex').toString('base64url');
}

export class SetDigest {
  #sum = 0n;

  add(projection: Projection): void {
    this.#sum = BigInt.asUintN(BITS, this.#sum + shareOf(projection));
  }

  delete(projection: Projection): void {
    this.#sum = BigInt.asUintN(BITS, this.#sum - shareOf(projection));
  }

  /** Digest of the union of disjoint sets. */
  static union(digests: Iterable<SetDigest>): string {
    let sum = 0n;
    for (const digest of digests) sum = BigInt.asUintN(BITS, sum + digest.#sum);
    if (sum !== lastSum) {
      lastSum = sum;
      lastText = textOf(sum);
    }
    return lastText;
  }
}
