/**
 * The content that groups serve, kept beyond the process. After a restart, a group whose sources are all unreachable
 * serves it until one of them responds (docs/FAILOVER.md, "Content on disk").
 */
import { isListType } from '../../../protos/list-collection.js';
import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import { TYPE_URL } from '../../../protos/type-urls.js';
import type { Projection } from '../projection.js';
import { Fifo } from '../sources/fifo.js';
import type { SourceEntry } from '../sources/source-contents.js';
import type { Candidate } from './candidate.js';
import type { Asked } from './candidate-content.js';
import type { TurnRoom } from './turn-room.js';

/** Where the content is kept. No method throws. */
export interface LastKnown {
  /** @param source the id of the source that sent the content */
  keep(projection: Projection, source: string): void;
  drop(typeUrl: string, name: ResourceName): void;
  /**
   * The primary lacks this name, or has sent all members of this glob: drops the content of earlier processes that this one
   * has not kept again. A primary that has just started may send it a moment later, so it may be dropped late.
   */
  dropEarlier(typeUrl: string, name: ResourceName): void;
  /**
   * @param source the id of the source that sends the collection
   * @param isWhole did it send all members, and are all of them kept?
   */
  noteWhole(typeUrl: string, globKey: string, source: string, isWhole: boolean): void;
  /** Did an earlier process have all members of the collection? @param sources as in `find` */
  isWhole(typeUrl: string, glob: ResourceName, sources: readonly string[]): boolean;
  /**
   * @param sources ids: content of other sources is left out
   * @param isEarlier only what this process has not kept again; always so for globs
   * @returns the content kept for a name, or for the members of a glob
   */
  find(
    typeUrl: string,
    name: ResourceName,
    sources: readonly string[],
    isEarlier?: boolean,
  ): Iterable<Projection>;
}

/**
 * May this content outlive the process? Secrets stay in memory, and content with a TTL ends soon. Lists and redirects also say
 * which names do not exist, and a process that has heard of no source cannot know that (seeds 477, 8305).
 */
const mayOutlive = ({ typeUrl, redirect }: Projection, { expiresAtMs }: SourceEntry): boolean =>
  typeUrl !== TYPE_URL.secret && !isListType(typeUrl) && !redirect && expiresAtMs === undefined;

const collectionOf = (typeUrl: string, globKey: string): string => `${typeUrl} ${globKey}`;

/**
 * What one group keeps, and what it restores: it looks for the kept content of demanded names, a bounded number of resources in
 * each turn of the event loop.
 */
export class GroupLastKnown<D extends Asked> {
  readonly #lastKnown: LastKnown;
  readonly #sources: readonly string[];
  readonly #waiting = new Fifo<D>();
  /** Collections with a member that was not kept, by type and key of the glob. They stay here as long as the group lives. */
  readonly #inPart = new Set<string>();
  /** The content of the first demand that waits. */
  #found: Iterator<Projection> | undefined;

  constructor(lastKnown: LastKnown, candidates: readonly Candidate[]) {
    this.#lastKnown = lastKnown;
    this.#sources = candidates.map(({ source }) => source.id);
  }

  /** The group serves this entry of a source (its id), as `projection`. */
  handleServed(projection: Projection, entry: SourceEntry, source: string): void {
    const { typeUrl, name } = projection;
    if (mayOutlive(projection, entry)) this.#lastKnown.keep(projection, source);
    else {
      const globKey = globKeyOf(name);
      this.#inPart.add(collectionOf(typeUrl, globKey));
      this.#lastKnown.noteWhole(typeUrl, globKey, source, false);
      this.drop(typeUrl, name);
    }
  }

  drop(typeUrl: string, name: ResourceName): void {
    this.#lastKnown.drop(typeUrl, name);
  }

  /** The primary lacks this name, and the group does not serve it. */
  handleAbsent(typeUrl: string, name: ResourceName): void {
    this.#lastKnown.dropEarlier(typeUrl, name);
  }

  /**
   * The group serves all members of the collection; this source (its id) has sent the last one.
   *
   * @param isProof other members do not exist
   */
  handleWhole({ typeUrl, name }: Asked, source: string, isProof: boolean): void {
    if (isProof) this.#lastKnown.dropEarlier(typeUrl, name);
    const isWhole = !this.#inPart.has(collectionOf(typeUrl, name.key));
    this.#lastKnown.noteWhole(typeUrl, name.key, source, isWhole);
  }

  /** The content that an earlier process kept for this name, which is no glob. */
  kept(typeUrl: string, name: ResourceName): Projection | undefined {
    const [kept] = this.#lastKnown.find(typeUrl, name, this.#sources, true);
    return kept;
  }

  /** Did an earlier process have all members of this collection? */
  isWhole({ typeUrl, name }: Asked): boolean {
    return name.isGlob && this.#lastKnown.isWhole(typeUrl, name, this.#sources);
  }

  /** Does a demand wait for its kept content? */
  get isRestoring(): boolean {
    return this.#waiting.first !== undefined;
  }

  restore(demand: D): void {
    this.#waiting.push(demand);
  }

  /** @returns content of the demand, or undefined at its end, for as many as the turn has room for */
  *continueRestoration(
    room: TurnRoom,
  ): IterableIterator<{ readonly demand: D; readonly projection: Projection | undefined }> {
    for (let demand = this.#waiting.first; demand && room.take(); demand = this.#waiting.first) {
      const { typeUrl, name } = demand;
      this.#found ??= this.#lastKnown.find(typeUrl, name, this.#sources)[Symbol.iterator]();
      const next = this.#found.next();
      if (next.done === true) {
        this.#found = undefined;
        this.#waiting.shift();
        yield { demand, projection: undefined };
      } else yield { demand, projection: next.value };
    }
  }

  stopRestoration(): void {
    this.#waiting.clear();
    this.#found = undefined;
  }
}
