/**
 * A directory of resource files as a source. Its whole content is known at once, so `subscribe`
 * answers a name immediately; many resources in portions. The shell reads the files. It does not pass on a state that it
 * could not read, so the last good state stays.
 */
import { isDeepStrictEqual } from 'node:util';
import type { FileResource } from '../../../config/file-resource.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { isMemberOf, isOldStyle } from '../../../protos/resource-name.js';
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import { TYPE_URL, TYPE_URL_PREFIX } from '../../../protos/type-urls.js';
import { readResource } from '../projection.js';
import { mayPublish, readPublishedName, type PublishingRights } from './published-name.js';
import { ENTRY_COST_BYTES, PORTION_BYTES } from './response-portions.js';
import {
  SourceContents,
  type Listener,
  type SourceEntry,
  type SourceSubscription,
} from './source-contents.js';
import type { Source, SourceFacts } from './source.js';

export interface FileLoad {
  readonly resources: readonly FileResource[];
  /** False: some files never had valid content, and may contain the names that are missing here. */
  readonly isWhole?: boolean;
  readonly nowMs: number;
}

/** A resource that cannot be served, and why. */
export interface RefusedResource {
  readonly name: string;
  readonly reason: string;
}

/** By type and name. */
type Loaded = Map<string, Map<string, SourceEntry>>;

function typeIn(loaded: Loaded, typeUrl: string): Map<string, SourceEntry> {
  const known = loaded.get(typeUrl);
  if (known) return known;
  const made = new Map<string, SourceEntry>();
  loaded.set(typeUrl, made);
  return made;
}

const MAY_BE_UNREADABLE: RpcStatus = {
  code: STATUS_CODE.unavailable,
  message: 'a file of the directory has no valid content, and may have the resource',
};

export class FileSource implements Source {
  readonly name: string;
  readonly id: string;
  readonly contents = new SourceContents();
  readonly #rights: PublishingRights;
  #loaded: Loaded = new Map();
  #liveSinceMs: number | undefined;
  #unreadable = false;
  /** It could not be read after the last load, or had no file: some of its files may still have to be copied into it. */
  #wasAway = false;
  /** Parts of a load have come, and the load has not. */
  #isLoading = false;
  #read: Omit<FileLoad, 'nowMs'> = { resources: [] };
  #refused: readonly RefusedResource[] = [];
  /** Subscriptions that are still to be answered, in portions. */
  #toAnswer: SourceSubscription[] = [];
  #answering: Iterator<void> | undefined;
  /** An unchanged file yields the same objects again, so they are read once. */
  readonly #entries = new WeakMap<FileResource, SourceEntry>();

  readonly #onInput: () => void;
  readonly #portionBytes: number;

  /** @param onInput called after each input that may change the answers of this source */
  constructor(
    name: string,
    rights: PublishingRights,
    onInput: () => void,
    portionBytes = PORTION_BYTES,
  ) {
    this.name = name;
    this.#onInput = onInput;
    this.id = name;
    this.#rights = rights;
    this.#portionBytes = portionBytes;
  }

  /** Nothing to request: the shell reports every change of the directory. */
  readonly askAgain = (): void => undefined;
  readonly nudge = (): void => undefined;

  readonly answersInParts = (): boolean => false;

  facts(): SourceFacts {
    const sinceMs = this.#liveSinceMs;
    const tripped = this.#unreadable;
    return {
      live: sinceMs !== undefined,
      liveSinceMs: sinceMs ?? 0,
      wellSinceMs: sinceMs ?? null,
      tripped,
    };
  }

  /**
   * The directory cannot be read at all, or lost its last file. If it was read before, its last good state is preferred to
   * an alternative.
   */
  handleUnreadable(): void {
    this.#wasAway = true;
    this.#unreadable = this.#liveSinceMs === undefined;
    this.#onInput();
  }

  /**
   * The new map may give this source other authorities: it checks the resources again. The end of a load does so too.
   *
   * @returns the resources that it refuses since, and why
   */
  handleMapChanged(nowMs: number): readonly RefusedResource[] {
    if (this.#liveSinceMs === undefined || this.#isLoading) return [];
    const before = this.#refused;
    const refused = this.#take({ ...this.#read, nowMs }, false);
    return refused.filter((one) => !before.some((other) => isDeepStrictEqual(one, other)));
  }

  /** The resources of the latest reading that cannot be served. */
  get refused(): readonly RefusedResource[] {
    return this.#refused;
  }

  /**
   * Some resources of a load to come, so that not all of them change in one turn. The first load is not taken in parts: it
   * answers all names together. Removals come with `handleLoaded`.
   */
  handlePart(resources: readonly FileResource[]): void {
    this.#isLoading = true;
    for (const resource of resources) {
      const taken = this.#entryOf(resource);
      if (!taken.ok || this.#liveSinceMs === undefined) continue;
      const { entry } = taken;
      const { name, typeUrl } = entry.projection;
      typeIn(this.#loaded, typeUrl).set(name.key, entry);
      if (this.contents.isWanted(typeUrl, name)) this.contents.put(entry);
    }
    this.#onInput();
  }

  /** @returns the refused resources, and why. */
  handleLoaded(load: FileLoad): readonly RefusedResource[] {
    const wasAway = this.#wasAway;
    this.#wasAway = false;
    return this.#take(load, wasAway);
  }

  /** @param isDoubtful what the load lacks may still come: the deletion guard judges it */
  #take({ nowMs, ...read }: FileLoad, isDoubtful: boolean): readonly RefusedResource[] {
    this.#read = read;
    this.#isLoading = false;
    const { resources } = read;
    const refused: RefusedResource[] = [];
    this.#refused = refused;
    const loaded: Loaded = new Map();
    for (const resource of resources) {
      const taken = this.#entryOf(resource);
      if (!taken.ok) refused.push({ name: resource.name, reason: taken.reason });
      const entry = taken.ok ? taken.entry : taken.lastGood;
      if (!entry) continue;
      const { name, typeUrl } = entry.projection;
      typeIn(loaded, typeUrl).set(name.key, entry);
    }
    this.#loaded = loaded;
    this.#liveSinceMs ??= nowMs;
    this.#unreadable = false;
    const types = [...this.contents.types()];
    this.#answer(
      types.flatMap((typeUrl) => [...this.contents.subscriptions(typeUrl)]),
      types,
      isDoubtful,
    );
    return refused;
  }

  names(typeUrl: string): Iterable<string> {
    return this.#loaded.get(typeUrl)?.keys() ?? [];
  }

  subscribe(typeUrl: string, name: ResourceName, listener: Listener): void {
    const added = this.contents.subscribe(typeUrl, name, listener);
    if (!added || this.#liveSinceMs === undefined) this.#onInput();
    else if (this.#answering) this.#toAnswer.push(added);
    else this.#answer([added]);
  }

  unsubscribe(typeUrl: string, name: ResourceName, listener: Listener): void {
    this.contents.unsubscribe(typeUrl, name, listener);
  }

  setWarmed(): void {
    // Files need no connection.
  }

  #entryOf(
    resource: FileResource,
  ): { ok: true; entry: SourceEntry } | { ok: false; reason: string; lastGood?: SourceEntry } {
    const { typeUrl: bodyTypeUrl } = resource;
    const known = this.#entries.get(resource);
    if (known && mayPublish(bodyTypeUrl, known.projection.name, this.#rights)) {
      return { ok: true, entry: known };
    }
    const published = readPublishedName(bodyTypeUrl, resource.name, this.#rights);
    if (!published.ok) return published;
    const { name } = published;
    if (name.isGlob) return { ok: false, reason: 'is the name of a collection' };
    // A redirect has the type in its name, not that of its body.
    const isRedirect = bodyTypeUrl === TYPE_URL.resourceLocator && !isOldStyle(name);
    const typeUrl = isRedirect ? TYPE_URL_PREFIX + name.resourceType : bodyTypeUrl;
    const projected = readResource(name, typeUrl, bodyTypeUrl, resource.body);
    if (!projected.ok) {
      const lastGood = this.#loaded.get(typeUrl)?.get(name.key);
      return { ...projected, ...(lastGood && { lastGood }) };
    }
    const { projection } = projected;
    const entry = { projection, upstreamVersion: projection.version };
    this.#entries.set(resource, entry);
    return { ok: true, entry };
  }

  /** Portions of answers are left. Call `continueResponse` soon. */
  get isMidResponse(): boolean {
    return this.#answering !== undefined;
  }

  /** Gives the next portion. */
  continueResponse(): void {
    const answering = this.#answering;
    // If it throws, nothing is left of it.
    this.#answering = undefined;
    if (answering?.next().done === false) this.#answering = answering;
    this.#onInput();
  }

  /**
   * @param loaded the types whose old content a load replaces
   * @param isDoubtful see `SourceChange`
   */
  #answer(
    subscriptions: SourceSubscription[],
    loaded: readonly string[] = [],
    isDoubtful = false,
  ): void {
    this.#toAnswer = subscriptions;
    this.#answering = this.#answerInPortions(subscriptions, loaded, isDoubtful);
    this.continueResponse();
  }

  /** Each `yield` ends a portion. What is removed or absent comes last and together: clients may need other resources first. */
  *#answerInPortions(
    subscriptions: readonly SourceSubscription[],
    loaded: readonly string[],
    isDoubtful: boolean,
  ): Generator<void> {
    let usedBytes = 0;
    for (const subscription of subscriptions) {
      for (const entry of this.#entriesFor(subscription)) {
        if (usedBytes > this.#portionBytes) {
          yield;
          usedBytes = 0;
        }
        // It may have been unsubscribed since.
        const { typeUrl, name, field } = entry.projection;
        if (this.contents.isWanted(typeUrl, name)) this.contents.put(entry);
        usedBytes += ENTRY_COST_BYTES + field.bodyLength;
      }
    }
    for (const typeUrl of loaded) this.#removeGone(typeUrl, isDoubtful);
    for (const subscription of subscriptions) this.#answerMissing(subscription);
  }

  /** The present content, also if it changes meanwhile. */
  *#entriesFor({ typeUrl, name }: SourceSubscription): Generator<SourceEntry> {
    const loaded = this.#loaded.get(typeUrl);
    const entry = loaded?.get(name.key);
    if (entry) yield entry;
    if (!name.isGlob) return;
    for (const member of loaded?.values() ?? []) {
      if (isMemberOf(member.projection.name, name)) yield member;
    }
  }

  #removeGone(typeUrl: string, isDoubtful: boolean): void {
    const loaded = this.#loaded.get(typeUrl);
    for (const { projection } of [...this.contents.entries(typeUrl)]) {
      const isGone = this.#isWhole && !loaded?.has(projection.name.key);
      if (isGone) this.contents.remove(typeUrl, projection.name, isDoubtful);
    }
  }

  get #isWhole(): boolean {
    return this.#read.isWhole !== false;
  }

  /**
   * A name without a resource is absent, unless a file without valid content may contain it. Then
   * the name counts as timed out, which proves no absence. A glob, which may be empty, is answered.
   */
  #answerMissing(subscription: SourceSubscription): void {
    const { typeUrl, name } = subscription;
    if (this.contents.subscription(typeUrl, name) !== subscription) return;
    if (this.#loaded.get(typeUrl)?.has(name.key) === true) return;
    if (this.#isWhole) this.contents.remove(typeUrl, name, false);
    else this.contents.timeOut(subscription, MAY_BE_UNREADABLE);
  }
}
