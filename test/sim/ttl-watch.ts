/**
 * Tracks the TTLs that each process received: content that was not renewed must be gone at its
 * deadline, and not before (invariant 20).
 */
import type { AuthorityMap } from '../../config/model.js';
import { bodyOf } from '../../protos/resource-field.js';
import type { EventQueue } from './heap.js';
import type { Instance } from './instance.js';
import { globOf, isGlob, markOf, partsOf } from './names.js';
import { Violation, type Oracle } from './oracle.js';
import { parsedName } from './parsed-names.js';
import type { Delivered } from './upstream-wire.js';
import { WAITING_TURNS } from './world.js';

interface Term {
  /** True time; Infinity: no deadline. */
  readonly endsMs: number;
  readonly mark: number | undefined;
  /** The map in force when it came. */
  readonly map: AuthorityMap;
}

/** Times are rounded. */
const SLACK_MS = 5;
export class TtlWatch {
  readonly #queue: EventQueue;
  readonly #oracle: Oracle;
  readonly #turnMs: number;
  readonly #terms = new Map<string, Term>();
  /** By the same keys: the last deadline that passed. */
  readonly #endedMs = new Map<string, number>();
  expired = 0;

  /** @param turnMs a timer of a process is late by this at most, and a portion takes so long */
  constructor(queue: EventQueue, oracle: Oracle, turnMs: number) {
    this.#queue = queue;
    this.#oracle = oracle;
    this.#turnMs = turnMs;
  }

  /** Call this before the process gets the message. */
  noteDelivered(instance: Instance, source: string, delivered: readonly Delivered[]): void {
    for (const { name, ttlMs, mark } of delivered) {
      const key = `${instance.process} ${source} ${name}`;
      const before = this.#terms.get(key);
      if (!before && ttlMs === undefined) continue;
      this.#noteEnd(key, before);
      const { clock } = instance;
      const endsMs = ttlMs === undefined ? Infinity : clock.toTrueMs(clock.nowMs + ttlMs);
      const term: Term = { endsMs, mark: mark ?? before?.mark, map: this.#oracle.map };
      this.#terms.set(key, term);
      if (endsMs === Infinity) continue;
      // No resource of a source ends while the source's messages wait: one of them may renew it.
      this.#queue.at(Math.ceil(endsMs) + SLACK_MS + WAITING_TURNS * this.#turnMs, () => {
        if (this.#terms.get(key) === term) this.#checkGone(instance, source, name, term);
      });
    }
  }

  #noteEnd(key: string, term: Term | undefined): void {
    if (term && term.endsMs <= this.#queue.nowMs) this.#endedMs.set(key, term.endsMs);
  }

  /**
   * May this process remove the name because its TTL, or that of its redirect target, ended since
   * then?
   */
  mayHaveEnded(process: string, name: string, sinceMs: number, atMs: number): boolean {
    if (this.#terms.size === 0) return false;
    for (const source of this.#oracle.map.sources.keys()) {
      const needed = new Set<string>();
      this.#oracle.addNeeded(name, source, needed);
      const [...asked] = needed;
      for (const one of asked) if (isGlob(one)) this.#addMembers(process, source, one, needed);
      for (const one of needed) {
        const key = `${process} ${source} ${one}`;
        const endsMs = this.#terms.get(key)?.endsMs ?? Infinity;
        const endedMs = this.#endedMs.get(key) ?? -Infinity;
        if (endsMs <= atMs + SLACK_MS || endedMs >= sinceMs) return true;
      }
    }
    return false;
  }

  #addMembers(process: string, source: string, glob: string, to: Set<string>): void {
    const prefix = `${process} ${source} `;
    for (const key of this.#terms.keys()) {
      const name = key.startsWith(prefix) ? key.slice(prefix.length) : undefined;
      if (name !== undefined && globOf(name) === glob) to.add(name);
    }
  }

  /**
   * Checked only where the result is certain: content of the primary, under its own name, that no
   * other source has.
   */
  #checkGone(instance: Instance, source: string, name: string, { mark, map }: Term): void {
    this.expired++;
    const { authority, typeUrl } = partsOf(name);
    const isPrimary = map.authorities.get(authority)?.sources[0] === source;
    if (!instance.isAlive || mark === undefined || !isPrimary) return;
    // Content kept because a redirect leads to nothing has no deadline (docs/SPEC.md).
    if (this.#oracle.mayBeRedirected(name)) return;
    if (this.#oracle.placesOf(mark) > 1 || markHeld(instance, typeUrl, name) !== mark) return;
    throw new Violation('20', `${instance.name} holds ${name} #${mark} after its TTL`);
  }
}

/** The mark of the content that a process holds for a name. */
function markHeld({ cache }: Instance, typeUrl: string, text: string): number | undefined {
  const name = parsedName(text);
  const state = cache.stateOf(typeUrl, name);
  const collection = cache.collectionOf(typeUrl, parsedName(globOf(text)));
  const held =
    state?.kind === 'present' ? state.projection : collection?.member(name.key)?.projection;
  return held && markOf(bodyOf(held.field));
}
