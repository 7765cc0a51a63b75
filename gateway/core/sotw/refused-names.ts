/**
 * The names of one type that a state-of-the-world client requests and the gateway refuses. Each request
 * repeats all names, so the gateway remembers the refused ones: each error is sent once.
 */
import type { ResourceError, RpcStatus } from '../../../protos/discovery.js';
import { spokenName } from '../session/asked-name.js';

export interface RefusedName {
  readonly status: RpcStatus;
  /** Refused by a quota, which its account reports. */
  readonly isSilent: boolean;
  /** Number of the last request that named it. */
  mark: number;
}

/** Names of one type without room that a stream may have; each costs memory. With more, it ends. A count. */
const MAX_NAMES_WITHOUT_ROOM = 1_000;

export class RefusedNames {
  /** By the client's spelling. */
  readonly #refused = new Map<string, RefusedName>();
  /** Names whose error is still to be sent. Bounded by the names of one request, however many requests come. */
  readonly #untold = new Map<string, RpcStatus>();
  /** Names without room, including names that the client dropped since. */
  #countWithoutRoom = 0;
  #endStatus: RpcStatus | undefined;

  get size(): number {
    return this.#refused.size;
  }

  get hasUntold(): boolean {
    return this.#untold.size > 0;
  }

  /** The stream has to end, since there is no room for its names; undefined: it goes on. */
  get endStatus(): RpcStatus | undefined {
    return this.#endStatus;
  }

  get(text: string): RefusedName | undefined {
    return this.#refused.get(text);
  }

  /** The name is invalid, or the gateway does not serve it. */
  refuse(text: string, status: RpcStatus): RefusedName {
    return this.#add(text, status, false);
  }

  /**
   * A client that may hold the name would delete it if a set came without it, so its stream ends: it
   * keeps what it holds, and tries again.
   *
   * @param mayHold the client may hold the resource
   */
  refuseWithoutRoom(text: string, status: RpcStatus, mayHold: boolean): RefusedName {
    this.#countWithoutRoom++;
    if (mayHold || this.#countWithoutRoom > MAX_NAMES_WITHOUT_ROOM) this.#endStatus = status;
    return this.#add(text, status, true);
  }

  #add(text: string, status: RpcStatus, isSilent: boolean): RefusedName {
    const refused = { status, isSilent, mark: 0 };
    this.#refused.set(text, refused);
    this.#untold.set(text, status);
    return refused;
  }

  /** Forgets the names that the request with this number does not repeat. */
  dropAllBut(mark: number): void {
    for (const [text, refused] of this.#refused) {
      if (refused.mark === mark) continue;
      this.#refused.delete(text);
      this.#untold.delete(text);
    }
  }

  /** The errors that were not sent yet. */
  takeErrors(): ResourceError[] {
    const untold = [...this.#untold];
    this.#untold.clear();
    return untold.map(([text, status]) => ({ name: spokenName(text), status }));
  }
}
