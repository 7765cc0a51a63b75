/**
 * The identities of the node groups in use: what a scope stands for. An entry lives as long as anyone
 * holds it: the streams of its clients, and the node group itself, which lingers after them.
 */
import { COMMON_SCOPE, fieldsOfScope } from '../../../protos/node-scope.js';
import { identityOfFields, type ClientIdentity } from '../sources/client-identity.js';

interface Entry {
  readonly identity: ClientIdentity;
  users: number;
}

export class Identities {
  readonly #entries = new Map<string, Entry>();

  /** Number of scopes in use. */
  get size(): number {
    return this.#entries.size;
  }

  has(scope: string): boolean {
    return this.#entries.has(scope);
  }

  /**
   * @returns undefined for the common scope, and for a hashed scope without a holder. A readable scope
   *   contains its fields, so it needs no entry.
   */
  of(scope: string): ClientIdentity | undefined {
    if (scope === COMMON_SCOPE) return undefined;
    const entry = this.#entries.get(scope);
    if (entry) return entry.identity;
    const fields = fieldsOfScope(scope);
    return fields && identityOfFields(fields);
  }

  /**
   * Keeps a scope's entry until the returned function is called. The identity of the first holder stays:
   * all others agree with it in everything that the map compares.
   */
  hold(scope: string, identity: ClientIdentity): () => void {
    const entry = this.#entries.get(scope) ?? { identity, users: 0 };
    this.#entries.set(scope, entry);
    entry.users++;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      if (--entry.users === 0) this.#entries.delete(scope);
    };
  }
}
