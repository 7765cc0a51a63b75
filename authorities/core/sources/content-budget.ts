/**
 * Bounds the content that the gateway keeps: resources and bytes for each source, and bytes for all
 * sources together. A source that invents members forever reaches its budget, and the gateway refuses
 * its further resources (NACK) instead of running out of memory.
 */

/** The memory of a resource beside its encoded bytes: its name, its entries in several tables. Bytes. */
export const RESOURCE_COST_BYTES = 1_024;

/** The bounds of one source. */
export interface ContentLimits {
  /** A count. */
  readonly maxResources: number;
  /** Encoded resources, each with `RESOURCE_COST_BYTES`. Bytes. */
  readonly maxBytes: number;
}

const UNLIMITED_CONTENT: ContentLimits = Object.freeze({
  maxResources: Infinity,
  maxBytes: Infinity,
});

/** Resources of one source that were refused for lack of room. */
export interface Unroomed {
  /** A count. */
  readonly resources: number;
  /** Of the encoded resources. */
  readonly bytes: number;
}

/** The bytes that all sources hold together. */
export class ContentTotal {
  readonly maxBytes: number;
  #bytes = 0;
  readonly #isShort: () => boolean;

  /**
   * @param maxBytes with `RESOURCE_COST_BYTES` for each resource
   * @param isShort whether memory is so short that no source may add resources; default: never
   */
  constructor(maxBytes = Infinity, isShort: () => boolean = () => false) {
    this.maxBytes = maxBytes;
    this.#isShort = isShort;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get isShort(): boolean {
    return this.#isShort();
  }

  /** @param bytes negative: the resources are no longer held */
  add(bytes: number): void {
    this.#bytes += bytes;
  }
}

/** The resources that one source holds. */
export class ContentBudget {
  readonly #limits: ContentLimits;
  readonly #total: ContentTotal;
  #resources = 0;
  #bytes = 0;
  #isClosed = false;

  constructor(limits: ContentLimits = UNLIMITED_CONTENT, total: ContentTotal = new ContentTotal()) {
    this.#limits = limits;
    this.#total = total;
  }

  get resources(): number {
    return this.#resources;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The part of the budget that is used, from 0 to 1: the larger of resources and bytes. */
  get fullness(): number {
    const { maxResources, maxBytes } = this.#limits;
    return Math.max(this.#resources / maxResources, this.#bytes / maxBytes);
  }

  /**
   * @param bytes of the encoded resource
   * @param heldBytes of the resource that it replaces; undefined: it is new
   * @returns why the resource has no room, to follow its name in a sentence; undefined: it has room
   */
  refusal(bytes: number, heldBytes: number | undefined): string | undefined {
    const isNew = heldBytes === undefined;
    const more = isNew ? bytes + RESOURCE_COST_BYTES : bytes - heldBytes;
    // A smaller version is never refused, however full the budget is.
    if (more <= 0) return undefined;
    const { maxResources, maxBytes } = this.#limits;
    if (isNew && this.#resources >= maxResources) {
      return `exceeds the source's budget of ${maxResources} resources (limits.max_resources_per_source)`;
    }
    if (this.#bytes + more > maxBytes) {
      return `exceeds the source's budget of ${maxBytes} bytes (limits.max_content_per_source)`;
    }
    if (this.#total.bytes + more > this.#total.maxBytes) {
      return `exceeds the budget of ${this.#total.maxBytes} bytes for all sources (limits.max_content)`;
    }
    return isNew && this.#total.isShort
      ? 'is new, and the gateway is short of memory (limits.max_heap_percent)'
      : undefined;
  }

  /** Is there room for all that was refused? */
  hasRoomFor({ resources, bytes }: Unroomed): boolean {
    const { maxResources, maxBytes } = this.#limits;
    const more = bytes + resources * RESOURCE_COST_BYTES;
    const isFull = this.#resources + resources > maxResources || this.#bytes + more > maxBytes;
    return !isFull && this.#total.bytes + more <= this.#total.maxBytes && !this.#total.isShort;
  }

  /** @param heldBytes as for `refusal` */
  add(bytes: number, heldBytes: number | undefined): void {
    if (heldBytes === undefined) this.#change(1, bytes + RESOURCE_COST_BYTES);
    else this.#change(0, bytes - heldBytes);
  }

  /** @param bytes of all the resources that are no longer held */
  remove(bytes: number, resources = 1): void {
    this.#change(-resources, -bytes - resources * RESOURCE_COST_BYTES);
  }

  /** The source is no longer used: the total forgets its resources. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#total.add(-this.#bytes);
  }

  #change(resources: number, bytes: number): void {
    this.#resources += resources;
    this.#bytes += bytes;
    if (!this.#isClosed) this.#total.add(bytes);
  }
}
