/** The log of a run: lines for humans, and one hash to compare two runs. */

export class Log {
  readonly #onLine: ((line: string) => void) | undefined;
  #high = 0x811c9dc5;
  #low = 0x01234567;

  constructor(onLine: ((line: string) => void) | undefined) {
    this.#onLine = onLine;
  }

  add(atMs: number, line: string): void {
    const text = `${atMs} ${line}`;
    for (let at = 0; at < text.length; at++) this.#mix(text.charCodeAt(at));
    this.#onLine?.(text);
  }

  /** For humans only: it repeats what the hash contains already. */
  explain(atMs: number, line: () => string): void {
    this.#onLine?.(`${atMs} ${line()}`);
  }

  /** Bytes of a message: hashed, not shown. */
  addBytes(atMs: number, bytes: Uint8Array): void {
    this.#mix(atMs);
    this.#mix(bytes.length);
    const { length } = bytes;
    let at = 0;
    for (; at + 4 <= length; at += 4) {
      const low = bytes[at]! | (bytes[at + 1]! << 8);
      this.#mix(low | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24));
    }
    for (; at < length; at++) this.#mix(bytes[at]!);
  }

  get hash(): string {
    const hex = (value: number): string => (value >>> 0).toString(16).padStart(8, '0');
    return hex(this.#high) + hex(this.#low);
  }

  #mix(value: number): void {
    this.#high = Math.imul(this.#high ^ value, 0x01000193);
    this.#low = Math.imul(this.#low + value, 0x85ebca6b) ^ (this.#low >>> 13);
  }
}
