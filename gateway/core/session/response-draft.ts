/** Builds one response to a client from resources that are already encoded. */
import type { Projection } from '../../../authorities/index.js';
import type { ResourceError } from '../../../protos/discovery.js';
import { appended } from '../../../protos/empty-collections.js';
import { withVersion } from '../../../protos/resource-field.js';
import { errorSize, type MessageLimit } from './message-limit.js';

/** Contents of one response. */
export interface ResponseContent {
  readonly pieces: readonly Buffer[];
  readonly resourceCount: number;
  readonly removed: readonly string[];
  readonly errors: readonly ResourceError[];
  /** The response adds resources that the client did not have. */
  readonly bringsNew: boolean;
}

export const NOTHING: ResponseContent = {
  pieces: [],
  resourceCount: 0,
  removed: [],
  errors: [],
  bringsNew: false,
};

const NO_PIECES: Buffer[] = [];

/** A response with so many is full, however small they are: one of 5,000 took a turn of 20 to 40 ms. A count. */
const MAX_RESOURCES = 2_500;

/** Collects the contents of one response. */
export class Draft {
  readonly #maxBytes: number;
  readonly #limit: MessageLimit;
  #pieces = NO_PIECES;
  /** A set: a client rejects a whole response that names a resource twice (ENVOY 9). */
  #removed: Set<string> | undefined;
  #errors: ResourceError[] | undefined;
  #bytes = 0;
  #resources = 0;
  #bringsNew = false;
  #isOwed = false;

  constructor(maxBytes: number, limit: MessageLimit) {
    this.#maxBytes = maxBytes;
    this.#limit = limit;
  }

  get isEmpty(): boolean {
    return this.#resources === 0 && !this.#removed && !this.#errors && !this.#isOwed;
  }

  get isFull(): boolean {
    return this.#bytes >= this.#maxBytes || this.#resources >= MAX_RESOURCES;
  }

  /**
   * Is the response full, or would `next` exceed the client's message limit? An empty response
   * always takes one more resource.
   */
  isFullFor(next: Projection | undefined): boolean {
    if (this.isFull) return true;
    if (!next || this.#bytes === 0) return false;
    return this.#limit.exceeds(next, this.#resources, this.#bytes);
  }

  get removedCount(): number {
    return this.#removed?.size ?? 0;
  }

  add(projection: Projection, suffix: string, isNew: boolean): void {
    const { field, version } = projection;
    if (suffix === '') this.#put(field.bytes);
    else for (const piece of suffixed(projection, version + suffix)) this.#put(piece);
    this.#bytes += field.bytes.length;
    this.#resources++;
    this.#bringsNew ||= isNew;
  }

  #put(piece: Buffer): void {
    this.#pieces = appended(this.#pieces, piece);
  }

  remove(name: string): void {
    (this.#removed ??= new Set()).add(name);
    this.#bytes += name.length;
  }

  fail(error: ResourceError): void {
    (this.#errors ??= []).push(error);
    this.#bytes += errorSize(error);
  }

  /** Sends the response even if it stays empty. */
  owe(): void {
    this.#isOwed = true;
  }

  finish(): ResponseContent | undefined {
    if (this.isEmpty) return undefined;
    return {
      pieces: this.#pieces,
      resourceCount: this.#resources,
      removed: this.#removed ? [...this.#removed] : NOTHING.removed,
      errors: this.#errors ?? NOTHING.errors,
      bringsNew: this.#bringsNew,
    };
  }
}

interface Suffixed {
  readonly version: string;
  readonly pieces: readonly [Buffer, Buffer];
}

/** The last pieces of each assignment: clients that hold the same clusters are sent the same. */
const lastSuffixed = new WeakMap<Projection, Suffixed>();

function suffixed(projection: Projection, version: string): readonly [Buffer, Buffer] {
  const last = lastSuffixed.get(projection);
  if (last?.version === version) return last.pieces;
  const pieces = withVersion(projection.field, version);
  lastSuffixed.set(projection, { version, pieces });
  return pieces;
}
