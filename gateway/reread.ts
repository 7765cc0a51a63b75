/**
 * Reads a file of the listeners again. The owner keeps its last value while the file cannot be used, and is told each reason once,
 * until the file can be used again.
 */
export class Reread {
  readonly #onRefused: (reason: string) => void;
  #refused = '';

  /** @param onRefused must not throw */
  constructor(onRefused: (reason: string) => void) {
    this.#onRefused = onRefused;
  }

  /** @param read throws Error if the file cannot be used */
  attempt(read: () => void): void {
    try {
      read();
      this.#refused = '';
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (reason === this.#refused) return;
      this.#refused = reason;
      this.#onRefused(reason);
    }
  }
}
