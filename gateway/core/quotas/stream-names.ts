/** The names of one client stream, on the account of its peer. */
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import type { PeerAccount } from './quotas.js';

/** Pays for the entries of the cache that this client was the first to subscribe to. */
export interface NamePayer {
  /** @param count 1: an entry was made; -1: it is gone */
  changeUpstream(count: 1 | -1): void;
}

/** A client whose names were refused reconnects no earlier than this. Milliseconds. */
const ROOM_AFTER_MS = 10_000;

/** Types of a stream that count for no quota: more than Envoy has. Each further one counts as a name. A count. */
const FREE_TYPES = 10;

/** Names without room whose client gets an error, on one stream. They take memory that counts for no quota. A count. */
export const MAX_TOLD_WITHOUT_ROOM = 100;

/** Ends the stream of a client whose names were refused: it subscribes to them again. */
const ROOM_AGAIN: RpcStatus = {
  code: STATUS_CODE.unavailable,
  message: 'names of this stream were refused, and there is room again: reconnect',
};

export class StreamNames implements NamePayer {
  readonly #account: PeerAccount;
  #count = 0;
  #refusedAtMs: number | undefined;

  constructor(account: PeerAccount) {
    this.#account = account;
  }

  /**
   * Asks for one more name, which then counts at once: a request may have 10,000. `setCounts` says after the
   * request how many names it was.
   *
   * @param isWatched another client subscribes to the name already
   * @param leaving called if there is no room: how many names the request drops, which then no longer count
   * @returns why the client may not subscribe to one more name; undefined: it may
   */
  take(isWatched: boolean, nowMs: number, leaving: () => number = () => 0): RpcStatus | undefined {
    let status = this.#refusal(isWatched);
    const left = status ? leaving() : 0;
    if (left > 0) {
      this.leave(left);
      status = this.#refusal(isWatched);
    }
    if (status) this.#refusedAtMs = nowMs;
    else this.#change(1);
    return status;
  }

  #refusal(isWatched: boolean): RpcStatus | undefined {
    const account = this.#account;
    return account.ask('names') ?? (isWatched ? undefined : account.ask('upstream_names'));
  }

  /** The present request drops names. They leave their room to the new ones of the same request. */
  leave(count: number): void {
    this.#change(-count);
  }

  /**
   * Clients invent types, and each costs as much memory as a name.
   *
   * @param types how many the stream has
   * @returns why it may not have one more; undefined: it may
   */
  takeType(types: number, nowMs: number): RpcStatus | undefined {
    return types < FREE_TYPES ? undefined : this.take(true, nowMs);
  }

  /** The number of names or types of the stream changed. */
  setCounts(names: number, types: number): void {
    this.#change(names + Math.max(0, types - FREE_TYPES) - this.#count);
  }

  #change(count: number): void {
    this.#account.change('names', count);
    this.#count += count;
  }

  changeUpstream(count: 1 | -1): void {
    this.#account.change('upstream_names', count);
  }

  /** @returns a status to end the stream with, once there is room for names that were refused */
  endStatus(nowMs: number): RpcStatus | undefined {
    if (this.#refusedAtMs === undefined || nowMs < this.#refusedAtMs + ROOM_AFTER_MS) {
      return undefined;
    }
    const hasRoom =
      this.#account.hasRoomAgain('names') && this.#account.hasRoomAgain('upstream_names');
    return hasRoom ? ROOM_AGAIN : undefined;
  }
}
