/**
 * Finds the resources that a server deleted while no stream was open, if it was not sent their versions: because it
 * ignores them (`resume: fresh`), or because they do not fit into one request. Such a server sends all resources again
 * on a new stream, and a held one that it does not send is gone. Bulk machine of one source.
 */
import type { ResourceName } from '../../../protos/resource-name.js';
import type { SourceContents, SourceSubscription } from './source-contents.js';

/** The answer of a type may come in several responses: it is whole after this silence. */
const QUIET_MS = 500;

interface FirstAnswer {
  /** Requested later: the answer says nothing about them. */
  readonly later: ReadonlySet<SourceSubscription>;
  /** The names that the present stream has sent, by key. */
  readonly sent: Set<string>;
  /** Infinity: no response of the type came. */
  wholeAtMs: number;
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
    if (answer) answer.wholeAtMs = nowMs + QUIET_MS;
  }

  nextDeadlineMs(): number {
    return Math.min(...[...this.#answers.values()].map(({ wholeAtMs }) => wholeAtMs));
  }

  /** The removals pass the deletion guard, as all that follow a reconnect. */
  handleTimer(nowMs: number): void {
    for (const [typeUrl, { later, sent, wholeAtMs }] of this.#answers) {
      if (wholeAtMs > nowMs) continue;
      this.#answers.delete(typeUrl);
      const held = [...this.#contents.entries(typeUrl)].map(({ projection }) => projection.name);
      for (const name of held) {
        if (sent.has(name.key) || this.#isLater(typeUrl, name, later)) continue;
        this.#contents.remove(typeUrl, name, true);
      }
    }
  }
}
