/** Tells whether a file is the same as before, without reading it. */
import { statSync } from 'node:fs';

/** @returns a text that changes with the file; undefined: it cannot be found */
export function fingerprintOf(file: string): string | undefined {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(file, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(' ');
  } catch {
    return undefined;
  }
}
