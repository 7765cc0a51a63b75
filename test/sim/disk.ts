/** The state file of one machine. It survives a crash of the process, if the disk keeps it. */
import type { Random } from './random.js';

/** Number of earlier versions that may come back. */
const REMEMBERED = 4;

export class Disk {
  file: string | undefined;
  /** The file may be unreadable from now on. */
  isDamaged = false;
  readonly #past: string[] = [];

  /** A write replaces the file atomically. */
  write(file: string): void {
    if (this.file !== undefined) this.#past.push(this.file);
    if (this.#past.length > REMEMBERED) this.#past.shift();
    this.file = file;
  }

  /** Acknowledged writes are lost. */
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
