/**
 * Sources that an operator has forced for a whole authority. The groups of its names come and go: a group that begins while the order
 * lasts begins at that source.
 */
export interface ForceOrder {
  /** The name of the source. */
  readonly source: string;
  readonly untilMs: number;
}

export class ForceOrders {
  /** By authority, or entry of old-style names. */
  readonly #byAuthority = new Map<string, ForceOrder>();

  /** Replaces an earlier order. */
  give(authority: string, order: ForceOrder): void {
    this.#byAuthority.set(authority, order);
  }

  /** @returns whether there was an order that had not ended by itself */
  end(authority: string, nowMs: number): boolean {
    const isInForce = this.inForce(authority, nowMs) !== undefined;
    this.#byAuthority.delete(authority);
    return isInForce;
  }

  inForce(authority: string, nowMs: number): ForceOrder | undefined {
    const order = this.#byAuthority.get(authority);
    return order && nowMs < order.untilMs ? order : undefined;
  }
}
