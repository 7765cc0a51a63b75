/**
 * Server-sent events for the browsers that show the page: each gets the sections that changed since it
 * got them last (WHATWG HTML, "Server-sent events"). The number of browsers is bounded, and one that does
 * not read costs nothing but its connection, which the admin server closes after its silence.
 */
import type { ServerResponse } from 'node:http';
import type { AdminContext, PageFollowers } from '../reply.js';
import { clientsChoiceOf, clientsSection, type ClientsChoice } from './clients-section.js';
import { stateSections, type Section } from './state-sections.js';

/** Far below the connections of the admin server, which never closes one whose response goes on. */
export const MAX_FOLLOWERS = 16;
/** How often the sections are compared. A switch is shown at once. */
const COMPARE_EVERY_MS = 1_000;
/** The admin server closes a connection after 30 s of silence; proxies often after 60 s. */
const COMMENT_EVERY_MS = 10_000;

interface Follower {
  readonly response: ServerResponse;
  readonly choice: ClientsChoice;
  /** By section: the HTML that the browser has. */
  readonly has: Map<string, string>;
  wroteAtMs: number;
}

export class PageEvents implements PageFollowers {
  readonly #context: AdminContext;
  readonly #followers = new Set<Follower>();
  #timer: NodeJS.Timeout | undefined;
  #unlisten: (() => void) | undefined;
  #soon: NodeJS.Immediate | undefined;

  constructor(context: AdminContext) {
    this.#context = context;
  }

  get count(): number {
    return this.#followers.size;
  }

  admit(query: URLSearchParams): ((response: ServerResponse) => void) | undefined {
    if (this.#followers.size >= MAX_FOLLOWERS) return undefined;
    return (response) => {
      this.#follow(response, clientsChoiceOf(query));
    };
  }

  #follow(response: ServerResponse, choice: ClientsChoice): void {
    // The response is closed: no further 'close' event will come.
    if (response.destroyed) return;
    const { clock } = this.#context;
    const follower = { response, choice, has: new Map<string, string>(), wroteAtMs: clock() };
    this.#followers.add(follower);
    response.once('close', () => {
      this.#followers.delete(follower);
      if (this.#followers.size === 0) this.#stop();
    });
    this.#start();
    // Between its page and this stream something may have changed.
    this.#compareSoon();
  }

  #start(): void {
    this.#timer ??= setInterval(() => {
      this.#compare();
    }, COMPARE_EVERY_MS).unref();
    this.#unlisten ??= this.#context.telemetry.switches.listen(() => {
      this.#compareSoon();
    });
  }

  #stop(): void {
    clearInterval(this.#timer);
    clearImmediate(this.#soon);
    this.#unlisten?.();
    this.#timer = this.#unlisten = this.#soon = undefined;
  }

  /** After the event that is being handled, and once for all groups that switch together. */
  #compareSoon(): void {
    this.#soon ??= setImmediate(() => {
      this.#soon = undefined;
      this.#compare();
    });
  }

  #compare(): void {
    try {
      const common = stateSections(this.#context);
      // Most browsers show the first page of clients: looking at 10,000 takes 2 ms.
      const byChoice = new Map<string, Section>();
      for (const follower of this.#followers) {
        // It has not read the last events: it gets the newest state when it has.
        if (follower.response.writableNeedDrain) continue;
        const choice = JSON.stringify(follower.choice);
        const clients = byChoice.get(choice) ?? clientsSection(this.#context, follower.choice);
        byChoice.set(choice, clients);
        this.#send(follower, [...common, clients]);
      }
    } catch (error) {
      // A timer calls this: nothing else would catch it.
      this.#context.telemetry.onHandlerError(error);
    }
  }

  #send(follower: Follower, sections: readonly Section[]): void {
    const { response, has } = follower;
    const nowMs = this.#context.clock();
    let text = '';
    for (const { id, content } of sections) {
      if (has.get(id) === content.text) continue;
      has.set(id, content.text);
      // JSON has no line feed, which would end the data of an event.
      text += `event: section\ndata: ${JSON.stringify({ id, html: content.text })}\n\n`;
    }
    if (text === '' && nowMs - follower.wroteAtMs >= COMMENT_EVERY_MS) text = ':\n\n';
    if (text === '') return;
    follower.wroteAtMs = nowMs;
    response.write(text);
  }
}
