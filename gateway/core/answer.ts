/** One answer to a client, from pieces that are encoded already. */
import type { Projection } from '../../authorities/index.js';
import type { ResourceError } from '../../protos/discovery.js';
import { withVersion } from '../../protos/resource-field.js';

/** What one answer is made of. */
export interface Answer {
  readonly pieces: readonly Uint8Array[];
  readonly resourceCount: number;
  readonly removed: readonly string[];
  readonly errors: readonly ResourceError[];
  /** It brings names that the client did not have. */
  readonly bringsNew: boolean;
}

/** An answer in the making. */
export class Draft {
  readonly #maxBytes: number;
  readonly #pieces: Uint8Array[] = [];
  /** A set, because a name twice in a response has the whole of it refused. */
  readonly #removed = new Set<string>();
  readonly #errors: ResourceError[] = [];
  #bytes = 0;
  #resources = 0;
  #bringsNew = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get isFull(): boolean {
    return this.#bytes >= this.#maxBytes;
  }

  get removedCount(): number {
    return this.#removed.size;
  }

  add({ field, version }: Projection, suffix: string, isNew: boolean): void {
    if (suffix === '') this.#pieces.push(field.bytes);
    else this.#pieces.push(...withVersion(field, version + suffix));
    this.#bytes += field.bytes.length;
    this.#resources++;
    this.#bringsNew ||= isNew;
  }

  remove(name: string): void {
    this.#removed.add(name);
    this.#bytes += name.length;
  }

  fail(error: ResourceError): void {
    this.#errors.push(error);
    this.#bytes += error.name.length + error.status.message.length;
  }

  finish(): Answer | undefined {
    if (this.#resources + this.#removed.size + this.#errors.length === 0) return undefined;
    return {
      pieces: this.#pieces,
      resourceCount: this.#resources,
      removed: [...this.#removed],
      errors: this.#errors,
      bringsNew: this.#bringsNew,
    };
  }
}
