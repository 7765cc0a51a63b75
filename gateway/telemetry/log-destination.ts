/**
 * Where the lines of the log go: stdout. A full disk, or a terminal that is closed, costs lines, and never the
 * process: without a listener its error would end the process, and pino would try to write the rest at the exit, for ever.
 */
import { destination, type DestinationStream } from 'pino';

/** Number of lines that could not be written. */
export interface LostLines {
  count: number;
}

const STDOUT = 1;

/** Lines that wait while stdout takes none. With more, the newest are lost. Bytes. */
const MAX_WAITING_BYTES = 1_024 * 1_024;

/** JSON lines, to be read by programs. Lines that wait are written once stdout takes them again. */
export function jsonDestination(lost: LostLines): DestinationStream {
  // With a least length of 1 byte it writes at once, and `flush` waits; with 0 it would not.
  const options = { dest: STDOUT, minLength: 1, sync: false, maxLength: MAX_WAITING_BYTES };
  const lines = destination(options);
  let isBroken = false;
  lines.on('error', () => {
    isBroken = true;
  });
  lines.on('write', () => {
    isBroken = false;
  });
  lines.on('drop', () => {
    lost.count++;
  });
  // Before the listener of pino.
  process.prependListener('exit', () => {
    if (isBroken) lines.destroy();
  });
  return lines;
}

/** @param shown a line for people */
export function prettyDestination(
  lost: LostLines,
  shown: (line: string) => string,
): DestinationStream {
  process.stdout.on('error', () => {
    lost.count++;
  });
  return {
    write: (line) => {
      if (process.stdout.destroyed) lost.count++;
      else process.stdout.write(shown(line));
    },
  };
}
