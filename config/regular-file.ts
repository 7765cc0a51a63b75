/** Reads files that operators name, or that lie in their directories, without trusting what they are. */
import { closeSync, constants, fstatSync, openSync, readSync, statSync, type Stats } from 'node:fs';

/** An authority map, a settings file, or a file of resources may not be larger. */
export const MAX_FILE_BYTES = 16 * 1_024 * 1_024;

/**
 * The content of a regular file. Symbolic links are followed, since Kubernetes mounts files as links.
 * A pipe would block the process for ever, and a device may have no end.
 *
 * @throws Error of the system, or with the reason: not a regular file, or more than `maxBytes`.
 */
export function readRegularFile(path: string, maxBytes = MAX_FILE_BYTES): Buffer {
  // Opening a device may already have an effect, so look first.
  check(statSync(path), maxBytes);
  // Another file may have taken its place: O_NONBLOCK does not wait for the writer of a pipe.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(file);
    check(stats, maxBytes);
    return readAtMost(file, stats.size, maxBytes);
  } finally {
    closeSync(file);
  }
}

function check(stats: Stats, maxBytes: number): void {
  checkIsRegular(stats);
  if (stats.size > maxBytes) throw tooLarge(maxBytes);
}

/** @throws Error with the reason */
export function checkIsRegular(stats: Stats): void {
  const kind = kindOf(stats);
  if (kind !== undefined) throw new Error(`is ${kind}, not a regular file`);
}

function kindOf(stats: Stats): string | undefined {
  if (stats.isFile()) return undefined;
  if (stats.isDirectory()) return 'a directory';
  if (stats.isFIFO()) return 'a pipe';
  if (stats.isSocket()) return 'a socket';
  return 'a device';
}

const tooLarge = (maxBytes: number): Error =>
  new Error(`is larger than the limit of ${maxBytes} bytes`);

/** Files of /proc have size 0, and a file may grow while it is read: so read up to its end. */
function readAtMost(file: number, sizeBytes: number, maxBytes: number): Buffer {
  let bytes = Buffer.alloc(sizeBytes + 1);
  let length = 0;
  for (;;) {
    const got = readSync(file, bytes, length, bytes.length - length, null);
    length += got;
    if (got === 0) return bytes.subarray(0, length);
    if (length > maxBytes) throw tooLarge(maxBytes);
    if (length === bytes.length) bytes = Buffer.concat([bytes, Buffer.alloc(bytes.length)]);
  }
}
