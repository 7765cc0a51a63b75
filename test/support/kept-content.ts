/** A disk for content that survives its process, without writes that take time. */
import type { LastKnown } from '../../authorities/core/failover/last-known.js';
import type { Projection } from '../../authorities/core/projection.js';
import { globKeyOf, type ResourceName } from '../../protos/resource-name.js';

export class KeptContent implements LastKnown {
  readonly #kept = new Map<string, { readonly projection: Projection; readonly source: string }>();
  /** What only earlier processes had. */
  #unsent = new Set<string>();

  keep(projection: Projection, source: string): void {
    const key = `${projection.typeUrl} ${projection.name.key}`;
    this.#kept.set(key, { projection, source });
    this.#unsent.delete(key);
  }

  /** The process ends, and the next one begins. */
  restart(): void {
    this.#unsent = new Set(this.#kept.keys());
  }

  dropEarlier(typeUrl: string, asked: ResourceName): void {
    for (const key of this.#unsent) {
      const { projection } = this.#kept.get(key)!;
      const isAsked = key === `${typeUrl} ${asked.key}`;
      const isMember = projection.typeUrl === typeUrl && globKeyOf(projection.name) === asked.key;
      if (!isAsked && !(asked.isGlob && isMember)) continue;
      this.#kept.delete(key);
      this.#unsent.delete(key);
    }
  }

  readonly #whole = new Map<string, string>();

  noteWhole(typeUrl: string, globKey: string, source: string, isWhole: boolean): void {
    this.#whole.set(`${typeUrl} ${globKey}`, isWhole ? source : '');
  }

  isWhole(typeUrl: string, glob: ResourceName, sources: readonly string[]): boolean {
    return sources.includes(this.#whole.get(`${typeUrl} ${glob.key}`) ?? '');
  }

  drop(typeUrl: string, name: ResourceName): void {
    this.#kept.delete(`${typeUrl} ${name.key}`);
    this.#unsent.delete(`${typeUrl} ${name.key}`);
  }

  *find(
    typeUrl: string,
    asked: ResourceName,
    sources: readonly string[],
    isEarlier = false,
  ): Iterable<Projection> {
    for (const { projection, source } of this.#kept.values()) {
      const { name } = projection;
      if (projection.typeUrl !== typeUrl || !sources.includes(source)) continue;
      if (name.key !== asked.key && !(asked.isGlob && globKeyOf(name) === asked.key)) continue;
      if (!this.#unsent.delete(`${typeUrl} ${name.key}`) && isEarlier) continue;
      yield projection;
    }
  }

  /** The names that are kept. */
  get names(): readonly string[] {
    return [...this.#kept.values()].map(({ projection }) => projection.name.key).sort();
  }
}
