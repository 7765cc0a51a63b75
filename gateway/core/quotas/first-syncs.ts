/**
 * Which client gets its first responses next, when many connect at once. A limited number of first syncs is
 * under way; the others wait. Clients that resume with versions go first, since they need little, and
 * the peers take turns.
 */
import type { PeerAccount } from './quotas.js';

/** The first responses of one stream. */
export interface FirstSync {
  readonly account: PeerAccount;
  /** The client brought versions. */
  readonly isResuming: boolean;
  /**
   * `idle`: there is nothing to send; `over`: the client acknowledged the first response, or took too
   * long for that.
   */
  state: 'idle' | 'waiting' | 'under_way' | 'over';
}

/** A first sync is over after this time: a client that does not acknowledge holds up no other. */
const UNDER_WAY_AT_MOST_MS = 1_000;

type Waiting<Stream> = Map<PeerAccount, Map<FirstSync, Stream>>;

export class FirstSyncs<Stream> {
  readonly #resuming: Waiting<Stream> = new Map();
  readonly #fresh: Waiting<Stream> = new Map();
  /** First syncs under way, with the time when each ends at the latest; in this order. */
  readonly #underWay = new Map<FirstSync, number>();
  #waitingCount = 0;

  get waitingCount(): number {
    return this.#waitingCount;
  }

  /** When a first sync is over that takes too long; undefined: none is under way. */
  get nextDeadlineMs(): number | undefined {
    const [untilMs] = this.#underWay.values();
    return untilMs;
  }

  wait(sync: FirstSync, stream: Stream): void {
    if (sync.state !== 'idle') return;
    sync.state = 'waiting';
    this.#waitingCount++;
    const waiting = sync.isResuming ? this.#resuming : this.#fresh;
    const ofPeer = waiting.get(sync.account);
    if (ofPeer) ofPeer.set(sync, stream);
    else waiting.set(sync.account, new Map([[sync, stream]]));
  }

  /** @returns the stream that may send its first responses now; undefined: none */
  next(nowMs: number): Stream | undefined {
    this.#endLate(nowMs);
    return this.#nextOf(this.#resuming, nowMs) ?? this.#nextOf(this.#fresh, nowMs);
  }

  #nextOf(waiting: Waiting<Stream>, nowMs: number): Stream | undefined {
    for (const [account, ofPeer] of waiting) {
      const scope = account.exhaustedScope('first_syncs');
      if (scope === 'global') return undefined;
      const [first] = scope === undefined ? ofPeer : [];
      if (!first) continue;
      const [sync, stream] = first;
      this.#remove(waiting, sync);
      // The next turn is another peer's.
      if (ofPeer.size > 0) {
        waiting.delete(account);
        waiting.set(account, ofPeer);
      }
      sync.state = 'under_way';
      account.change('first_syncs', 1);
      this.#underWay.set(sync, nowMs + UNDER_WAY_AT_MOST_MS);
      return stream;
    }
    return undefined;
  }

  /** The stream had nothing to send after all. */
  release(sync: FirstSync): void {
    if (sync.state === 'under_way') this.#leave(sync, 'idle');
  }

  /** The client acknowledged its first response, or its stream ended. */
  end(sync: FirstSync): void {
    if (sync.state === 'waiting') this.#remove(this.#waitingOf(sync), sync);
    if (sync.state === 'under_way') this.#leave(sync, 'over');
    sync.state = 'over';
  }

  #endLate(nowMs: number): void {
    for (const [sync, untilMs] of this.#underWay) {
      if (nowMs < untilMs) return;
      this.#leave(sync, 'over');
    }
  }

  #leave(sync: FirstSync, state: 'idle' | 'over'): void {
    sync.state = state;
    this.#underWay.delete(sync);
    sync.account.change('first_syncs', -1);
  }

  #waitingOf({ isResuming }: FirstSync): Waiting<Stream> {
    return isResuming ? this.#resuming : this.#fresh;
  }

  #remove(waiting: Waiting<Stream>, sync: FirstSync): void {
    const ofPeer = waiting.get(sync.account);
    if (ofPeer?.delete(sync) !== true) return;
    this.#waitingCount--;
    if (ofPeer.size === 0) waiting.delete(sync.account);
  }
}
