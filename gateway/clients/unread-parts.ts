/**
 * The parts of requests that wait in the streams of one connection. Node keeps a buffer for each DATA frame that a stream has
 * not read, some 150 bytes, and a frame may carry one byte: the flow-control window of 64 KiB took 10 MB.
 */
import type { Duplex } from 'node:stream';

/**
 * Parts that may wait. In a full window these have 32 bytes each, fewer than any request of xDS. A count.
 */
const MAX_UNREAD_PARTS = 2_048;

/** Parts that arrive between two counts of those that wait. A count. */
const PARTS_PER_LOOK = 256;

/** The list of the parts of Node's stream, below its public interface. */
interface Parts {
  readonly _readableState?: {
    readonly buffer?: { readonly length: number };
    /** Since Node.js 22: those before it have been read. */
    readonly bufferIndex?: number;
  };
}

export class UnreadParts {
  readonly #onPart: () => void;
  readonly #onTooMany: () => void;
  readonly #streams = new Set<Duplex>();
  #arrived = 0;

  /**
   * @param onPart a part has arrived, read or not
   * @param onTooMany more parts wait than may; may be called again
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
    this.#streams.add(stream);
    const push = stream.push.bind(stream);
    stream.push = (part: unknown) => {
      this.#onPart();
      if (++this.#arrived >= PARTS_PER_LOOK) this.#look();
      return push(part);
    };
    return () => {
      this.#streams.delete(stream);
    };
  }

  #look(): void {
    this.#arrived = 0;
    let waiting = 0;
    for (const stream of this.#streams) waiting += partsOf(stream);
    if (waiting > MAX_UNREAD_PARTS) this.#onTooMany();
  }
}

function partsOf(stream: Duplex): number {
  const { _readableState: state } = stream as Parts;
  return (state?.buffer?.length ?? 0) - (state?.bufferIndex ?? 0);
}

/** Those that came with the stream's headers become one. */
function joinParts(stream: Duplex): void {
  if (partsOf(stream) < 2) return;
  const joined = stream.read() as Buffer | null;
  if (joined) stream.unshift(joined);
}
