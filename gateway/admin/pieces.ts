/** Long texts of the admin side, in pieces, so that none keeps the event loop. */
import type { Writable } from 'node:stream';
import type { Telemetry } from '../telemetry/telemetry.js';

/** How long the event loop may be busy with them at a time. */
const SLICE_MS = 5;

/** @returns all pieces, made in as many turns of the event loop as that takes */
export async function inSlices(pieces: Iterable<string>): Promise<string> {
  const made: string[] = [];
  let untilMs = performance.now() + SLICE_MS;
  for (const piece of pieces) {
    made.push(piece);
    if (performance.now() < untilMs) continue;
    await new Promise(setImmediate);
    untilMs = performance.now() + SLICE_MS;
  }
  return made.join('');
}

/** The JSON of an object with these fields and, last, one list. */
export function* jsonPieces<T>(
  fields: object,
  listName: string,
  list: Iterable<T>,
  itemOf: (one: T) => unknown,
): IterableIterator<string> {
  const start = JSON.stringify(fields).slice(0, -1);
  yield `${start}${start === '{' ? '' : ','}"${listName}":[`;
  let separator = '';
  // Copied: it may change between two slices.
  for (const one of [...list]) {
    yield separator + JSON.stringify(itemOf(one));
    separator = ',';
  }
  yield ']}';
}

/**
 * Writes the pieces at the pace at which the operator reads.
 *
 * @param out ended after the last piece, destroyed after an error
 */
export function writePieces(
  out: Writable,
  pieces: AsyncIterable<string>,
  telemetry: Pick<Telemetry, 'onHandlerError'>,
): void {
  writeAll(out, pieces).catch((error: unknown) => {
    telemetry.onHandlerError(error);
    out.destroy();
  });
}

async function writeAll(out: Writable, pieces: AsyncIterable<string>): Promise<void> {
  let text = '';
  let untilMs = performance.now() + SLICE_MS;
  for await (const piece of pieces) {
    text += piece;
    if (performance.now() < untilMs) continue;
    if (out.destroyed) return;
    if (!out.write(text)) await isReadOrGone(out);
    // A socket may drain at once: then this is still the same turn.
    await new Promise(setImmediate);
    text = '';
    untilMs = performance.now() + SLICE_MS;
  }
  out.end(text);
}

function isReadOrGone(out: Writable): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      out.off('drain', done).off('close', done);
      resolve();
    };
    out.on('drain', done).on('close', done);
  });
}
