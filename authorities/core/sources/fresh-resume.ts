/**
 * Finds the resources that a server deleted while no stream was open, if the server does not report them
 * (`resume: fresh`): some servers ignore `initial_resource_versions`. Such a server sends all resources
 * again on a new stream, and a held one that it does not send is gone. Bulk machine of one source.
 */
import type { ResourceName } from '../../../protos/resource-name.js';
import type { SourceContents } from './source-contents.js';

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

  handleOpened(): void {
    this.#unseen.clear();
    for (const typeUrl of this.#contents.types()) {
      const held = [...this.#contents.entries(typeUrl)].map(({ projection: { name } }) => name);
      const names = new Map(held.map((name) => [name.key, name]));
      this.#unseen.set(typeUrl, { names, wholeAtMs: Infinity });
    }
  }

  handleEnded(): void {
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
