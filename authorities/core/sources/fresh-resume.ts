/**
 * What a server deleted while no stream was open, if it does not report that (`resume: fresh`):
 * some servers ignore `initial_resource_versions`. Such a server sends all resources again on a new
 * stream, and a held one that it does not send is gone. Bulk machine of one source.
 */
import type { ResourceName } from '../../../protos/resource-name.js';
import type { SourceContents } from './source-contents.js';

/** The answer of a type may come in several responses: it is whole after this silence. */
const QUIET_MS = 500;

export class FreshResume {
  readonly #contents: SourceContents;
  /** By type and key: the held names that the present stream has not sent. */
  readonly #unseen = new Map<string, Map<string, ResourceName>>();
  /** By type, of those with a response: when it counts as whole. */
  readonly #wholeAtMs = new Map<string, number>();

  constructor(contents: SourceContents) {
    this.#contents = contents;
  }

  handleOpened(): void {
    this.handleEnded();
    for (const typeUrl of this.#contents.types()) {
      const held = [...this.#contents.entries(typeUrl)].map(({ projection: { name } }) => name);
      if (held.length > 0) this.#unseen.set(typeUrl, new Map(held.map((name) => [name.key, name])));
    }
  }

  handleEnded(): void {
    this.#unseen.clear();
    this.#wholeAtMs.clear();
  }

  /** The stream has sent this name, with content or with an error. */
  handleNamed(typeUrl: string, { key }: ResourceName): void {
    this.#unseen.get(typeUrl)?.delete(key);
  }

  handleResponse(typeUrl: string, nowMs: number): void {
    if (!this.#unseen.has(typeUrl)) return;
    this.#wholeAtMs.set(typeUrl, nowMs + QUIET_MS);
  }

  nextDeadlineMs(): number | undefined {
    const atMs = Math.min(...this.#wholeAtMs.values());
    return atMs === Infinity ? undefined : atMs;
  }

  /** The removals pass the deletion guard, as all that follow a reconnect. */
  handleTimer(nowMs: number): void {
    for (const [typeUrl, wholeAtMs] of this.#wholeAtMs) {
      if (wholeAtMs > nowMs) continue;
      this.#wholeAtMs.delete(typeUrl);
      const gone = this.#unseen.get(typeUrl) ?? new Map<string, ResourceName>();
      this.#unseen.delete(typeUrl);
      for (const name of gone.values()) this.#contents.remove(typeUrl, name, true);
    }
  }
}
