/**
 * The parts of requests that wait in the streams of one connection. Node keeps a buffer for each DATA frame that a stream has
 * not read, some 150 bytes, and a frame may carry one byte: the flow-control window of 64 KiB took 10 MB. So where many parts
 * wait, those of each stream become one.
 */
import type { Duplex } from 'node:stream';
import { noSet, ownSet } from '../../protos/empty-collections.js';

/** Parts that wait beside the first of each stream, before those of each stream become one. A count. */
const MAX_UNREAD_PARTS = 2_048;

/** Parts that arrive between two counts of those that wait. A count. */
const PARTS_PER_LOOK = 256;

/** The list of the parts of Node's stream, below its public interface. */
interface Parts extends Iterable<Buffer> {
  length: number;
  push(part: Buffer): unknown;
  /** Until Node.js 20 the list is a class, later an array. */
  clear?(): void;
}

interface StreamState {
  readonly buffer?: Parts;
  /** Since Node.js 22: those before it have been read. */
  bufferIndex?: number;
}

export class UnreadParts {
  readonly #onPart: (bytes: number | undefined) => boolean;
  /** A Set of its own only while there are streams, for the reason of `renewStreams`. */
  #streams: Set<Duplex> = noSet();
  #arrived = 0;

  /** @param onPart a part of this many bytes has arrived, read or not, or the end. Returns whether the stream gets it */
  constructor(onPart: (bytes: number | undefined) => boolean) {
    this.#onPart = onPart;
  }

  /**
   * Node hands each part to `push`, also while the stream is paused, when no event tells of it.
   *
   * @returns called when the stream is closed
   */
  watch(stream: Duplex): () => void {
    joinParts(stream);
    this.#streams = ownSet(this.#streams).add(stream);
    const push = stream.push.bind(stream);
    stream.push = (part: unknown) => {
      if (!this.#onPart(part instanceof Uint8Array ? part.length : undefined)) return false;
      if (++this.#arrived >= PARTS_PER_LOOK) this.#look();
      return push(part);
    };
    return () => {
      this.#streams.delete(stream);
      if (this.#streams.size === 0) this.#streams = noSet();
    };
  }

  #look(): void {
    this.#arrived = 0;
    let waiting = 0;
    for (const stream of this.#streams) waiting += Math.max(0, partsOf(stream) - 1);
    if (waiting > MAX_UNREAD_PARTS) for (const stream of this.#streams) joinParts(stream);
  }
}

function stateOf(stream: Duplex): StreamState | undefined {
  return (stream as { readonly _readableState?: StreamState })._readableState;
}

function partsOf(stream: Duplex): number {
  const state = stateOf(stream);
  return (state?.buffer?.length ?? 0) - (state?.bufferIndex ?? 0);
}

/**
 * Not by `read` and `unshift`: Node would open the stream's window again, and a refused stream that was read once
 * would never close.
 */
function joinParts(stream: Duplex): void {
  const state = stateOf(stream);
  if (!state?.buffer || partsOf(stream) < 2) return;
  const { buffer } = state;
  const joined = Buffer.concat([...buffer].slice(state.bufferIndex ?? 0));
  if (buffer.clear) buffer.clear();
  else buffer.length = 0;
  if (state.bufferIndex !== undefined) state.bufferIndex = 0;
  buffer.push(joined);
}
