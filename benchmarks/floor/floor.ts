import { resourceField, resourceIndex, responsePieces, type Catalogue } from './catalogue.js';
import { readRequest } from './request.js';

const MAX_RESPONSE_BYTES = 2 * 1_024 * 1_024;

/** One stream of a client, and what the floor remembers about it. */
export class Subscriber {
  nonce = 0;
  readonly indexes: number[] = [];
  hasSubscribed = false;
  readonly send: (message: readonly Buffer[]) => void;

  /** `send` writes the pieces of one message, one after the other. */
  constructor(send: (message: readonly Buffer[]) => void) {
    this.send = send;
  }
}

/**
 * What all floors in Node share: prepared bytes, and the clients that want them. It has no versions,
 * no merging and no resumes, and it ignores ACKs.
 */
export class Floor {
  readonly #catalogue: Catalogue;
  readonly #fields: Buffer[];
  readonly #wildcards = new Set<Subscriber>();
  readonly #watchers = new Map<number, Set<Subscriber>>();

  constructor(catalogue: Catalogue, resources: number) {
    this.#catalogue = catalogue;
    this.#fields = Array.from({ length: resources }, (_, i) => resourceField(catalogue, i));
  }

  handleRequest(from: Subscriber, bytes: Buffer): void {
    // Each state-of-the-world ACK repeats all names.
    if (this.#catalogue.sotw && from.hasSubscribed) return;
    const names = readRequest(bytes);
    if (names.length === 0) return;
    from.hasSubscribed = true;
    this.#subscribe(from, names);
  }

  #subscribe(to: Subscriber, names: readonly string[]): void {
    const wanted: Buffer[] = [];
    for (const name of names) {
      if (name.endsWith('*')) {
        this.#wildcards.add(to);
        this.#sendAll(to, this.#fields);
        continue;
      }
      const index = resourceIndex(name);
      const subscribers = this.#watchers.get(index) ?? new Set();
      this.#watchers.set(index, subscribers.add(to));
      to.indexes.push(index);
      wanted.push(this.#fields[index]!);
    }
    this.#sendAll(to, wanted);
  }

  /** Split into responses of a size that clients accept. */
  #sendAll(to: Subscriber, fields: readonly Buffer[]): void {
    let from = 0;
    let bytes = 0;
    for (const [i, field] of fields.entries()) {
      bytes += field.length;
      if (bytes > MAX_RESPONSE_BYTES || i === fields.length - 1) {
        this.#send(to, fields.slice(from, i + 1));
        from = i + 1;
        bytes = 0;
      }
    }
  }

  #send(to: Subscriber, fields: readonly Buffer[]): void {
    to.nonce += 1;
    to.send(responsePieces(this.#catalogue, fields, to.nonce));
  }

  change(index: number, marker: string): void {
    const field = resourceField(this.#catalogue, index, marker);
    this.#fields[index] = field;
    for (const subscriber of this.#wildcards) this.#send(subscriber, [field]);
    for (const subscriber of this.#watchers.get(index) ?? []) this.#send(subscriber, [field]);
  }

  forget(subscriber: Subscriber): void {
    this.#wildcards.delete(subscriber);
    for (const index of subscriber.indexes) this.#watchers.get(index)?.delete(subscriber);
  }
}
