/** The events of one session since its stream last took them. */
import { appended } from '../../../protos/empty-collections.js';
import type { SessionEvent } from './stream-session.js';

const NONE: SessionEvent[] = [];

export class SessionEvents {
  #events = NONE;

  add(event: SessionEvent): void {
    this.#events = appended(this.#events, event);
  }

  /** @returns the events since the last call, oldest first */
  take(): readonly SessionEvent[] {
    const taken = this.#events;
    this.#events = NONE;
    return taken;
  }
}
