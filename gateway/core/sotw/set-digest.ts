/**
 * The digest of a set of resources, kept up to date by what enters and leaves it, so that its cost
 * follows change and not the size of the set. It is the sum of a hash for each resource: the same for
 * the same set, at every instance and after every restart, in whatever order it came about.
 *
 * A sum, and not an XOR, so that the same resource twice is not none. Somebody who chooses contents
 * could construct two sets of one sum; he would gain that a client which resumes keeps the one set.
 */
import { createHash } from 'node:crypto';
import type { Projection } from '../../../authorities/index.js';
import { wireText } from '../../../protos/resource-name.js';

const BITS = 128;
const BYTES = BITS / 8;

/** A projection is shared by all clients, and so is its share of their digests. */
const shares = new WeakMap<Projection, bigint>();

function shareOf(projection: Projection): bigint {
  const known = shares.get(projection);
  if (known !== undefined) return known;
  const { name, version } = projection;
  // The version hashes type and content; not every content has its name inside.
  const hash = createHash('sha256')
    .update(wireText(name.key))
    .update('\0')
    .update(version)
    .digest('hex');
  const share = BigInt(`0x${hash.slice(0, 2 * BYTES)}`);
  shares.set(projection, share);
  return share;
}

export class SetDigest {
  #sum = 0n;

  add(projection: Projection): void {
    this.#sum = BigInt.asUintN(BITS, this.#sum + shareOf(projection));
  }

  delete(projection: Projection): void {
    this.#sum = BigInt.asUintN(BITS, this.#sum - shareOf(projection));
  }

  /** Of both sets together, where neither has what the other has. */
  static union(digests: Iterable<SetDigest>): string {
    let sum = 0n;
    for (const digest of digests) sum = BigInt.asUintN(BITS, sum + digest.#sum);
    return Buffer.from(sum.toString(16).padStart(2 * BYTES, '0'), 'hex').toString('base64url');
  }
}
