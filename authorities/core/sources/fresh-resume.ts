/**
 * Finds the resources that a server deleted while no stream was open, if it was not sent their versions: because it
 * ignores them (`resume: fresh`), or because they do not fit into one request. Such a server sends all resources again
 * on a new stream, and a held one that it does not send is gone. Bulk machine of one source.
 */
import type { ResourceName } from '../../../protos/resource-name.js';
import { Fifo } from './fifo.js';
import type { SourceContents, SourceSubscription } from './source-contents.js';

/** Names that are compared in one turn of the event loop: most of them may be gone, which costs some 5 µs each. A count. */
const COMPARED_PER_TURN = 1_000;

/** The answer of a type may come in several responses: it is whole after this silence. */
const QUIET_MS = 500;

interface FirstAnswer {
  /** Requested later: the answer says nothing about them. */
  readonly later: ReadonlySet<SourceSubscription>;
  /** The names that the present stream has sent, by key. */
  readonly sent: Set<string>;
  /** Infinity: no response of the type came. */
  wholeAtMs: number;
  /** Held names that are still to be compared with `sent`. Undefined: the answer is not whole yet. */
  compared?: Fifo<ResourceName>;
}

export class FreshResume {
  readonly #contents: SourceContents;
  /** By type: the answer to its first request. */
  readonly #answers = new Map<string, FirstAnswer>();

  constructor(contents: SourceContents) {
    this.#contents = contents;
  }

  /**
   * The first request of a type names no versions.
   *
   * @param later subscriptions that are requested later
   */
  handleRequested(typeUrl: string, later: ReadonlySet<SourceSubscription>): void {
    this.#answers.set(typeUrl, { later, sent: new Set(), wholeAtMs: Infinity });
  }

  #isLater(typeUrl: string, name: ResourceName, later: ReadonlySet<SourceSubscription>): boolean {
    if (later.size === 0) return false;
    const one = this.#contents.subscription(typeUrl, name) ?? this.#contents.globOf(typeUrl, name);
    return one !== undefined && later.has(one);
  }

  /** A stream begins or ends. */
  restart(): void {
    this.#answers.clear();
  }

  /** The stream has sent this name, with content or with an error. */
  handleNamed(typeUrl: string, { key }: ResourceName): void {
    this.#answers.get(typeUrl)?.sent.add(key);
  }

  handleResponse(typeUrl: string, nowMs: number): void {
    const answer = this.#answers.get(typeUrl);
    if (answer && !answer.compared) answer.wholeAtMs = nowMs + QUIET_MS;
  }

  nextDeadlineMs(): number {
    return Math.min(...[...this.#answers.values()].map(({ wholeAtMs }) => wholeAtMs));
  }

  /** Held names are still to be compared with an answer. */
  get isComparing(): boolean {
    return [...this.#answers.values()].some(({ compared }) => compared !== undefined);
  }

  /** The removals pass the deletion guard, as all that follow a reconnect. */
  handleTimer(nowMs: number): void {
    let left = COMPARED_PER_TURN;
    for (const [typeUrl, answer] of this.#answers) {
      if (answer.wholeAtMs > nowMs) continue;
      const compared = (answer.compared ??= this.#heldNames(typeUrl));
      for (let name = compared.first; name && left > 0; name = compared.first, left--) {
        compared.shift();
        if (answer.sent.has(name.key) || this.#isLater(typeUrl, name, answer.later)) continue;
        this.#contents.remove(typeUrl, name, true);
      }
      if (!compared.first) this.#answers.delete(typeUrl);
    }
  }

  #heldNames(typeUrl: string): Fifo<ResourceName> {
    const names = new Fifo<ResourceName>();
    for (const { projection } of this.#contents.entries(typeUrl)) names.push(projection.name);
    return names;
  }
}
