/**
 * Which clusters take their endpoints from which assignment. A cluster is sent before its assignment,
 * and a changed cluster makes Envoy wait until its assignment is sent again (docs/ENVOY.md).
 */
import type { Projection } from '../../../authorities/index.js';

export class ClusterEdges {
  /** By the key of the assignment, then by the key of the cluster. */
  readonly #clustersOf = new Map<string, Map<string, Projection>>();

  /** The held clusters that use the endpoints of this assignment. */
  clustersOf(edsKey: string): Iterable<Projection> {
    return this.#clustersOf.get(edsKey)?.values() ?? [];
  }

  /** @param before the resource that it replaces; undefined: none */
  handleChanged(projection: Projection, before: Projection | undefined): void {
    if (before && before.edsKey !== projection.edsKey) this.drop(before);
    const { edsKey, name } = projection;
    if (edsKey === undefined) return;
    let clusters = this.#clustersOf.get(edsKey);
    if (!clusters) this.#clustersOf.set(edsKey, (clusters = new Map<string, Projection>()));
    clusters.set(name.key, projection);
  }

  /** The resource is no longer held. */
  drop({ edsKey, name }: Projection): void {
    if (edsKey === undefined) return;
    const clusters = this.#clustersOf.get(edsKey);
    if (clusters?.delete(name.key) && clusters.size === 0) this.#clustersOf.delete(edsKey);
  }
}
