/** The state file of one machine: what outlives a process, unless the disk does not keep it. */
import type { Random } from './random.js';

/** So many versions of the file may come back. */
const REMEMBERED = 4;

export class Disk {
  file: string | undefined;
  /** It may be unreadable from now on. */
  isDamaged = false;
  readonly #past: string[] = [];

  /** A file is there whole or not at all: it replaces the one before. */
  write(file: string): void {
    if (this.file !== undefined) this.#past.push(this.file);
    if (this.#past.length > REMEMBERED) this.#past.shift();
    this.file = file;
  }

  /** Writes that were acknowledged are gone. */
  lose(dice: Random): void {
    const [first] = this.#past;
    this.file = first === undefined ? undefined : dice.pick(this.#past);
  }

  tear(dice: Random): void {
    if (this.file !== undefined) this.file = this.file.slice(0, dice.below(this.file.length + 1));
  }

  flipBits(dice: Random): void {
    if (this.file === undefined || this.file === '') return;
    const bytes = Buffer.from(this.file);
    for (let count = dice.pick([1, 1, 5]); count > 0; count--) {
      const at = dice.below(bytes.length);
      bytes[at] = bytes[at]! ^ (1 << dice.below(7));
    }
    this.file = bytes.toString();
  }
}
