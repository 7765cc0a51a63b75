/** Long texts of the admin side: written in pieces, so that none keeps the event loop. */
import type { Writable } from 'node:stream';
import type { Telemetry } from '../telemetry/telemetry.js';

/** How long the event loop may be busy with them at a time. */
const SLICE_MS = 5;

/**
 * Writes the pieces at the pace at which the operator reads.
 *
 * @param out ended after the last piece; destroyed if there is none because of an error
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
    await (out.write(text) ? new Promise(setImmediate) : isReadOrGone(out));
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
