/** A disk for content that survives its process, without writes that take time. */
import type { LastKnown } from '../../authorities/core/failover/last-known.js';
import type { Projection } from '../../authorities/core/projection.js';
import { globKeyOf, type ResourceName } from '../../protos/resource-name.js';

export class KeptContent implements LastKnown {
  readonly #kept = new Map<string, { readonly projection: Projection; readonly source: string }>();

  keep(projection: Projection, source: string): void {
    this.#kept.set(`${projection.typeUrl} ${projection.name.key}`, { projection, source });
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
  }

  *find(typeUrl: string, asked: ResourceName, sources: readonly string[]): Iterable<Projection> {
    for (const { projection, source } of this.#kept.values()) {
      const { name } = projection;
      if (projection.typeUrl !== typeUrl || !sources.includes(source)) continue;
      if (name.key === asked.key || (asked.isGlob && globKeyOf(name) === asked.key))
        yield projection;
    }
  }

  /** The names that are kept. */
  get names(): readonly string[] {
    return [...this.#kept.values()].map(({ projection }) => projection.name.key).sort();
  }
}
