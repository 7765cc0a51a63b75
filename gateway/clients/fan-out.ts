/**
 * Serves the client streams that have responses to send, in turns of a few milliseconds, so that a
 * change for a thousand clients does not delay incoming messages. Changes between two turns merge in
 * the sessions at no cost.
 */

export interface Pumpable {
  /** Writes the pending responses. */
  pump(): void;
}

/** Longest turn: the maximum delay for other work of the event loop. */
const TURN_MS = 8;

export class FanOut {
  readonly #ready = new Set<Pumpable>();
  #scheduled = false;

  schedule(stream: Pumpable): void {
    this.#ready.add(stream);
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#turn();
    });
  }

  forget(stream: Pumpable): void {
    this.#ready.delete(stream);
  }

  #turn(): void {
    this.#scheduled = false;
    const untilMs = performance.now() + TURN_MS;
    for (const stream of this.#ready) {
      this.#ready.delete(stream);
      stream.pump();
      if (performance.now() >= untilMs) break;
    }
    const [next] = this.#ready;
    if (next) this.schedule(next);
  }
}
