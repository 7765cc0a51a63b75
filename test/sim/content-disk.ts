/**
 * The content that one machine keeps on its disk, written like authorities/content-store.ts: in batches, each whole or not
 * at all, and a while after the changes. So a crash leaves older content, and content that was deleted meanwhile.
 */
import type { LastKnown } from '../../authorities/core/failover/last-known.js';
import type { Projection } from '../../authorities/core/projection.js';
import { decodeContent, encodeContent } from '../../authorities/kept-content.js';
import { globKeyOf, type ResourceName } from '../../protos/resource-name.js';

interface Written {
  readonly collection: string;
  readonly source: string;
  /** Undefined: a sign that the collection is whole. */
  readonly bytes: Buffer | undefined;
}

const collectionOf = (typeUrl: string, name: ResourceName): string =>
  `${typeUrl} ${globKeyOf(name)}`;
const keyOf = (typeUrl: string, name: ResourceName): string => `${typeUrl} ${name.key}`;

export class ContentDisk {
  readonly written = new Map<string, Written>();
}

/** The content as one process keeps and finds it. */
export class ProcessContent implements LastKnown {
  readonly #disk: ContentDisk;
  /** @returns undefined: the content of this source is not kept */
  readonly #sourceOf: (id: string) => string | undefined;
  /** Of earlier processes. */
  readonly #earlier: readonly (readonly [key: string, collection: string])[];
  /** Those that this process has neither kept again nor found. */
  readonly #unsent: Map<string, string>;
  #changes = new Map<string, Written | undefined>();
  /** The collections that this process had whole: only content of earlier processes is found. */
  readonly #wholeHere = new Set<string>();

  constructor(disk: ContentDisk, sourceOf: (id: string) => string | undefined) {
    this.#disk = disk;
    this.#sourceOf = sourceOf;
    this.#earlier = [...disk.written].map(([key, { collection }]) => [key, collection]);
    this.#unsent = new Map(this.#earlier);
  }

  keep(projection: Projection, id: string): void {
    const source = this.#sourceOf(id);
    if (source === undefined) return;
    const { typeUrl, name } = projection;
    const bytes = encodeContent({ projection, source, run: 0 });
    const collection = collectionOf(typeUrl, name);
    this.#changes.set(keyOf(typeUrl, name), { collection, source, bytes });
    this.#unsent.delete(keyOf(typeUrl, name));
  }

  drop(typeUrl: string, name: ResourceName): void {
    this.#changes.set(keyOf(typeUrl, name), undefined);
  }

  dropEarlier(typeUrl: string, name: ResourceName): void {
    const dropped = [...this.#unsent].filter(([key, collection]) =>
      name.isGlob ? collection === collectionOf(typeUrl, name) : key === keyOf(typeUrl, name),
    );
    for (const [key] of dropped) {
      this.#changes.set(key, undefined);
      this.#unsent.delete(key);
    }
  }

  noteWhole(typeUrl: string, globKey: string, id: string, isWhole: boolean): void {
    const source = this.#sourceOf(id);
    if (source === undefined) return;
    const collection = `${typeUrl} ${globKey}`;
    const key = `${collection} of ${source}`;
    this.#wholeHere.add(key);
    this.#changes.set(key, isWhole ? { collection, source, bytes: undefined } : undefined);
  }

  isWhole(typeUrl: string, glob: ResourceName, ids: readonly string[]): boolean {
    const collection = collectionOf(typeUrl, glob);
    return ids.some((id) => {
      const key = `${collection} of ${this.#sourceOf(id)}`;
      return this.#disk.written.has(key) && !this.#wholeHere.has(key);
    });
  }

  *find(
    typeUrl: string,
    name: ResourceName,
    ids: readonly string[],
    isEarlier = false,
  ): Iterable<Projection> {
    const sources = new Set(ids.map(this.#sourceOf));
    const collection = collectionOf(typeUrl, name);
    const keys = name.isGlob
      ? this.#earlier.filter(([, one]) => one === collection).map(([key]) => key)
      : [keyOf(typeUrl, name)];
    for (const key of keys) {
      const written = this.#changes.has(key) ? undefined : this.#disk.written.get(key);
      if (!written || !sources.has(written.source) || (isEarlier && !this.#unsent.has(key)))
        continue;
      const content = written.bytes && decodeContent(written.bytes);
      if (!content) continue;
      this.#unsent.delete(key);
      yield content.projection;
    }
  }

  /** Writes the changes so far. */
  write(): void {
    for (const [key, written] of this.#changes) {
      if (written) this.#disk.written.set(key, written);
      else this.#disk.written.delete(key);
    }
    this.#changes.clear();
  }
}
