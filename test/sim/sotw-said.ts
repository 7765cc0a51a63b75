/**
 * What a state-of-the-world client was told last on its stream, and what it may be told again: no set of
 * listeners or clusters comes twice as it is, and of the other types nothing that is on its way or was
 * refused (invariant 5, GRPC 4), unless the client asks for something else meanwhile.
 */
import { LastSaid } from './in-flight.js';
import { CDS, EDS, isGlob, LDS, nameOfWire, partsOf } from './names.js';
import { Violation, type Oracle } from './oracle.js';

/** A response, as far as these rules look at it. */
interface SaidResponse {
  readonly typeUrl: string;
  readonly versionInfo: string;
  readonly order: number;
  readonly readRequests: number;
  readonly sentMs: number;
  readonly names: readonly string[];
}

interface SaidSet extends SaidResponse {
  state: 'on its way' | 'accepted' | 'refused';
}

export class SotwSaid {
  readonly #knowsColdRules: boolean;
  /** By type of which a response has the whole set: the last one. */
  readonly #sets = new Map<string, SaidSet>();
  readonly #parts: LastSaid;
  /** By glob that was asked for: the request, until a set that did not change may be its answer. */
  readonly #unanswered = new Map<string, number>();
  readonly #node: string | undefined;
  readonly #oracle: Oracle;
  /** By type: what was asked for last, and the last request that changed it. */
  readonly #asked = new Map<string, { readonly names: string; readonly request: number }>();

  constructor(knowsColdRules: boolean, node: string | undefined, oracle: Oracle) {
    this.#node = node;
    this.#oracle = oracle;
    this.#knowsColdRules = knowsColdRules;
    this.#parts = new LastSaid(knowsColdRules, oracle);
  }

  clear(): void {
    this.#sets.clear();
    this.#parts.clear();
    this.#asked.clear();
    this.#unanswered.clear();
  }

  /** @param request the number of this request on its stream. */
  noteRequest(typeUrl: string, asked: readonly string[], request: number): void {
    const names = [...asked].sort().join('\n');
    const before = this.#asked.get(typeUrl)?.names;
    if (before === names) return;
    const known = new Set(before?.split('\n'));
    for (const wire of asked) {
      const name = nameOfWire(wire, typeUrl, this.#node);
      if (isGlob(name) && !known.has(wire)) this.#unanswered.set(name, request);
    }
    this.#asked.set(typeUrl, { names, request });
    this.#parts.noteAsked(typeUrl, request);
  }

  /** @throws Violation */
  check(response: SaidResponse, arrived: ReadonlyMap<string, Uint8Array>): void {
    const { typeUrl } = response;
    if (typeUrl !== LDS && typeUrl !== CDS) {
      for (const [name, body] of arrived) {
        this.#parts.check(name, Buffer.from(body).toString('latin1'), response, [typeUrl]);
      }
      return;
    }
    // The assignments of clusters follow them, changed or not.
    if (typeUrl === CDS) this.#parts.noteAsked(EDS, response.readRequests + 1);
    const before = this.#sets.get(typeUrl);
    this.#sets.set(typeUrl, { ...response, state: 'on its way' });
    if (!before || before.versionInfo !== response.versionInfo) return;
    if ((this.#asked.get(typeUrl)?.request ?? 0) > before.readRequests) return;
    if (this.#takesForEmpty(response)) return;
    // What went and is back meanwhile changed.
    const since = { sinceMs: before.sentMs };
    if (response.names.some((name) => this.#oracle.mayBeGone(name, since))) return;
    if (before.state === 'on its way') {
      throw new Violation('5', `the set of ${typeUrl} is sent again, unacknowledged`);
    }
    if (!this.#knowsColdRules) return;
    throw new Violation('19', `the set of ${typeUrl} is sent again as it was ${before.state}`);
  }

  /** The same set again may say of a glob that it brings nothing more, once. */
  #takesForEmpty({ typeUrl, readRequests }: SaidResponse): boolean {
    for (const [glob, request] of this.#unanswered) {
      if (partsOf(glob).typeUrl !== typeUrl || request > readRequests) continue;
      this.#unanswered.delete(glob);
      return true;
    }
    return false;
  }

  /** @param refusedBy the request that refused it; undefined: it was accepted. */
  noteAnswered({ typeUrl, order, names }: SaidResponse, refusedBy: number | undefined): void {
    for (const name of names) this.#parts.noteAnswered(name, order, refusedBy);
    const set = this.#sets.get(typeUrl);
    if (set?.order === order) set.state = refusedBy === undefined ? 'accepted' : 'refused';
  }
}
