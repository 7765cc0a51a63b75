/**
 * Serves the client streams that have something to say, a few milliseconds at a time, so that a
 * change for a thousand clients does not hold up what comes in meanwhile. Between its turns further
 * changes merge in the sessions, for nothing.
 */

export interface Pumpable {
  /** Writes what there is to write. */
  pump(): void;
}

/** Longest turn; other work of the event loop waits so long at most. */
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
