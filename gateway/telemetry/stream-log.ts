/** The log lines of opened and closed client streams. A client that opens streams all the time fills no disk. */
import type { Logger } from 'pino';
import { hostOf, LineRate } from './line-rate.js';
import { say } from './log.js';
import type { EventName } from './event-names.js';
import type { Repeats } from './repeats.js';

/** Many clients may come from one host, such as a NAT, when the gateway starts. */
const LINES_PER_HOST_AND_SECOND = 100;

export class StreamLog {
  readonly #log: Logger;
  readonly #repeats: Repeats;
  readonly #clock: () => number;
  readonly #rate = new LineRate(LINES_PER_HOST_AND_SECOND);

  /** @param repeats counts the lines that are withheld */
  constructor(log: Logger, repeats: Repeats, clock: () => number) {
    this.#log = log;
    this.#repeats = repeats;
    this.#clock = clock;
  }

  say(
    event: EventName,
    fields: { readonly peer: string } & Readonly<Record<string, unknown>>,
  ): void {
    if (this.#rate.take(hostOf(fields.peer), this.#clock())) say(this.#log, event, fields);
    else this.#repeats.withhold();
  }
}
