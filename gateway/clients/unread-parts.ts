/**
 * The parts of requests that wait in the streams of one connection. Node keeps a buffer for each DATA frame that a stream has
 * not read, some 150 bytes, and a frame may carry one byte: the flow-control window of 64 KiB took 10 MB.
 */
import type { Duplex } from 'node:stream';

/**
 * Parts that may wait. In a full window these have 32 bytes each, and no client of xDS sends requests that are so small
 * faster than the gateway reads them. A count.
 */
const MAX_UNREAD_PARTS = 2_048;

/** The list of the parts of Node's stream, below its public interface. */
interface Parts {
  readonly _readableState?: { readonly buffer?: { readonly length: number } };
}

export class UnreadParts {
  readonly #onPart: () => void;
  readonly #onTooMany: () => void;
  #count = 0;

  /**
   * @param onPart a part has arrived, read or not
   * @param onTooMany more parts wait than may; called again for each further part
   */
  constructor(onPart: () => void, onTooMany: () => void) {
    this.#onPart = onPart;
    this.#onTooMany = onTooMany;
  }

  /**
   * Node hands each part to `push`, also while the stream is paused, when no event tells of it.
   *
   * @returns called when the stream is closed
   */
  watch(stream: Duplex): () => void {
    joinParts(stream);
    const push = stream.push.bind(stream);
    let waiting = 0;
    const forget = (): void => {
      this.#count -= waiting;
      waiting = 0;
    };
    stream.push = (part: unknown) => {
      this.#onPart();
      if (stream.readableLength === 0) forget();
      waiting++;
      if (++this.#count > MAX_UNREAD_PARTS) this.#onTooMany();
      return push(part);
    };
    return forget;
  }
}

/** Those that came with the stream's headers become one. */
function joinParts(stream: Duplex): void {
  const { _readableState: state } = stream as Parts;
  if ((state?.buffer?.length ?? 0) < 2) return;
  const joined = stream.read() as Buffer | null;
  if (joined) stream.unshift(joined);
}
