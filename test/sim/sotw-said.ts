/**
 * What the gateway may repeat to a state-of-the-world client: no unchanged set of listeners or
 * clusters, and of the other types nothing that is unacknowledged or was refused (invariant 5, GRPC
 * 4), unless the client subscribes something else in between.
 */
import { LastSaid } from './in-flight.js';
import { CDS, EDS, isGlob, LDS, nameOfWire, partsOf } from './names.js';
import { Violation, type Oracle } from './oracle.js';

/** The parts of a response that these rules use. */
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
  /** By type with whole sets: the last response. */
  readonly #sets = new Map<string, SaidSet>();
  readonly #parts: LastSaid;
  /** By subscribed glob: its request, until an unchanged set may have answered it. */
  readonly #unanswered = new Map<string, number>();
  readonly #node: string | undefined;
  readonly #oracle: Oracle;
  /** By type: the last requested names, and the last request that changed them. */
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

  /** @param request number of this request on its stream. */
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
    // Assignments follow their clusters, changed or not.
    if (typeUrl === CDS) this.#parts.noteAsked(EDS, response.readRequests + 1);
    const before = this.#sets.get(typeUrl);
    this.#sets.set(typeUrl, { ...response, state: 'on its way' });
    if (!before || before.versionInfo !== response.versionInfo) return;
    if ((this.#asked.get(typeUrl)?.request ?? 0) > before.readRequests) return;
    if (this.#takesForEmpty(response)) return;
    // A resource that was removed and returned has changed.
    const since = { sinceMs: before.sentMs };
    if (response.names.some((name) => this.#oracle.mayBeGone(name, since))) return;
    if (before.state === 'on its way') {
      // The set also tells that a glob has no members, which a reload has granted.
      const hasGlobs = this.#asked.get(typeUrl)?.names.includes('*');
      if (hasGlobs && this.#oracle.mapChangedSince(before.sentMs)) return;
      throw new Violation('5', `the set of ${typeUrl} is sent again, unacknowledged`);
    }
    // An unchanged set may also answer a glob that was granted, and has no members.
    if (!this.#knowsColdRules || this.#oracle.history.maps[0]?.map.clients) return;
    throw new Violation('19', `the set of ${typeUrl} is sent again as it was ${before.state}`);
  }

  /** An unchanged set may answer a glob once: it has no further members. */
  #takesForEmpty({ typeUrl, readRequests }: SaidResponse): boolean {
    for (const [glob, request] of this.#unanswered) {
      if (partsOf(glob).typeUrl !== typeUrl || request > readRequests) continue;
      this.#unanswered.delete(glob);
      return true;
    }
    return false;
  }

  /** @param refusedBy the request with the NACK; undefined: the response was accepted. */
  noteAnswered({ typeUrl, order, names }: SaidResponse, refusedBy: number | undefined): void {
    // The gateway never sends a set again because of its refusal.
    const refused = refusedBy === undefined ? undefined : { request: refusedBy, atMs: Infinity };
    for (const name of names) this.#parts.noteAnswered(name, order, refused);
    const set = this.#sets.get(typeUrl);
    if (set?.order === order) set.state = refusedBy === undefined ? 'accepted' : 'refused';
  }
}
