/**
 * Finds the resources that a server deleted while no stream was open, if it was not sent their versions: because it
 * ignores them (`resume: fresh`), or because they do not fit into one request. Such a server sends all resources again
 * on a new stream, and a held one that it does not send is gone. Bulk machine of one source.
 */
import type { ResourceName } from '../../../protos/resource-name.js';
import type { SourceContents, SourceSubscription } from './source-contents.js';

/** The answer of a type may come in several responses: it is whole after this silence. */
const QUIET_MS = 500;

interface Unseen {
  /** By key: the held names that the present stream has not sent. */
  readonly names: Map<string, ResourceName>;
  /** Infinity: no response of the type came. */
  wholeAtMs: number;
}

export class FreshResume {
  readonly #contents: SourceContents;
  readonly #unseen = new Map<string, Unseen>();

  constructor(contents: SourceContents) {
    this.#contents = contents;
  }

  /**
   * The first request of a type names no versions.
   *
   * @param later subscriptions that are requested later: the answer to this request says nothing about them
   */
  handleRequested(typeUrl: string, later: ReadonlySet<SourceSubscription>): void {
    const names = new Map<string, ResourceName>();
    for (const { projection } of this.#contents.entries(typeUrl)) {
      const { name } = projection;
      if (later.size === 0 || !this.#isLater(typeUrl, name, later)) names.set(name.key, name);
    }
    this.#unseen.set(typeUrl, { names, wholeAtMs: Infinity });
  }

  #isLater(typeUrl: string, name: ResourceName, later: ReadonlySet<SourceSubscription>): boolean {
    const one = this.#contents.subscription(typeUrl, name) ?? this.#contents.globOf(typeUrl, name);
    return one !== undefined && later.has(one);
  }

  /** A stream begins or ends. */
  restart(): void {
    this.#unseen.clear();
  }

  /** The stream has sent this name, with content or with an error. */
  handleNamed(typeUrl: string, { key }: ResourceName): void {
    this.#unseen.get(typeUrl)?.names.delete(key);
  }

  handleResponse(typeUrl: string, nowMs: number): void {
    const unseen = this.#unseen.get(typeUrl);
    if (unseen) unseen.wholeAtMs = nowMs + QUIET_MS;
  }

  nextDeadlineMs(): number {
    return Math.min(...[...this.#unseen.values()].map(({ wholeAtMs }) => wholeAtMs));
  }

  /** The removals pass the deletion guard, as all that follow a reconnect. */
  handleTimer(nowMs: number): void {
    for (const [typeUrl, { names, wholeAtMs }] of this.#unseen) {
      if (wholeAtMs > nowMs) continue;
      this.#unseen.delete(typeUrl);
      for (const name of names.values()) this.#contents.remove(typeUrl, name, true);
    }
  }
}
