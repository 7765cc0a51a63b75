/**
 * TTL deadlines of the resources that a group keeps after their source gave them up.
 *
 * A deadline has one owner at a time. While the source holds the resource, the source owns it
 * (`SourceContents`): heartbeats renew it there, and the group hears `expired`. The group takes it
 * over when the source removes a resource that the group keeps (deletion guard, `ignore_deletion`,
 * a switch), when the group unsubscribes there, and when a reload replaces the group. The source
 * takes it back when it sends the resource again. One owner for good is not possible: a source also
 * ends resources that no group serves, and a group serves resources of sources that a reload
 * deleted (docs/adr/0016-ttl-leases.md).
 */
import type { ResourceName } from '../../../protos/resource-name.js';
import { Expiries, type Expiry } from '../sources/expiries.js';
import type { Candidate } from './candidate.js';
import type { Served, ServedNames } from './served-names.js';

export class TtlLeases {
  readonly #served: ServedNames;
  readonly #ends: Expiries;

  constructor(served: ServedNames) {
    this.#served = served;
    this.#ends = new Expiries((typeUrl, name) => served.get(typeUrl, name)?.endsMs);
  }

  get nextMs(): number | undefined {
    return this.#ends.nextMs;
  }

  /** Serves a resource whose source no longer owns the deadline `endsMs`, if it has one. */
  keep(served: Served): void {
    this.#served.set(served);
    const { projection, endsMs } = served;
    const { typeUrl, name } = projection;
    if (endsMs !== undefined) this.#ends.add({ atMs: endsMs, typeUrl, name });
  }

  /**
   * A candidate, in use or not, removed this name or sent it again.
   *
   * @param endsMs the TTL deadline of the removed content; undefined: the source owns it again
   */
  noteEnd(typeUrl: string, name: ResourceName, index: number, endsMs: number | undefined): void {
    const served = this.#served.get(typeUrl, name);
    if (served?.from === index && served.endsMs !== endsMs) this.keep({ ...served, endsMs });
  }

  /** The group is about to unsubscribe at a candidate: takes over all of its deadlines. */
  takeAll(index: number, candidate: Candidate): void {
    for (const served of this.#served.all()) {
      if (served.from !== index) continue;
      const kept = withEnd(served, candidate);
      if (kept !== served) this.keep(kept);
    }
  }

  /** Takes out the next name whose TTL has ended. */
  takeDue(nowMs: number): Expiry | undefined {
    return this.#ends.takeDue(nowMs);
  }

  clear(): void {
    this.#ends.clear();
  }
}

/** @returns the same object if the candidate that sent it no longer owns its deadline */
export function withEnd(served: Served, { source, mapping }: Candidate): Served {
  const { typeUrl, name } = served.projection;
  const entry = source.contents.entry(typeUrl, mapping.toSource(name));
  return entry ? { ...served, endsMs: entry.expiresAtMs } : served;
}
