/**
 * The names of one type that a state-of-the-world client requests and the gateway refuses. Each request
 * repeats all names, so the gateway remembers the refused ones: each error is sent once.
 */
import type { ResourceError, RpcStatus } from '../../../protos/discovery.js';
import { MAX_TOLD_WITHOUT_ROOM } from '../quotas/stream-names.js';
import { spokenName } from '../session/asked-name.js';

export interface RefusedName {
  readonly status: RpcStatus;
  /** A quota has no room for it, which its account reports. */
  readonly isSilent: boolean;
  /** Number of the last request that named it. */
  mark: number;
}

/** How many names without room a stream remembers; its types share the bound. */
export class ToldWithoutRoom {
  #count = 0;

  get isFull(): boolean {
    return this.#count >= MAX_TOLD_WITHOUT_ROOM;
  }

  change(count: 1 | -1): void {
    this.#count += count;
  }
}

export class RefusedNames {
  /** By the client's spelling. */
  readonly #refused = new Map<string, RefusedName>();
  /** Names whose error is still to be sent. Bounded by the names of one request, however many requests come. */
  readonly #untold = new Map<string, RpcStatus>();
  #endStatus: RpcStatus | undefined;
  readonly #told: ToldWithoutRoom;

  constructor(told: ToldWithoutRoom) {
    this.#told = told;
  }

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
    return this.#add(text, { status, isSilent: false, mark: 0 });
  }

  /**
   * The name is valid, and a quota has no room for it.
   *
   * @returns undefined: the stream has enough such names. The client gets no error, and its next request names it anew
   */
  refuseWithoutRoom(text: string, status: RpcStatus): RefusedName | undefined {
    if (this.#told.isFull) return undefined;
    this.#told.change(1);
    return this.#add(text, { status, isSilent: true, mark: 0 });
  }

  /** The stream has to end with this status. */
  end(status: RpcStatus): void {
    this.#endStatus = status;
  }

  #add(text: string, refused: RefusedName): RefusedName {
    this.#refused.set(text, refused);
    this.#untold.set(text, refused.status);
    return refused;
  }

  /** Forgets the names that the request with this number does not repeat. */
  dropAllBut(mark: number): void {
    for (const [text, refused] of this.#refused) {
      if (refused.mark === mark) continue;
      this.#refused.delete(text);
      if (refused.isSilent) this.#told.change(-1);
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
