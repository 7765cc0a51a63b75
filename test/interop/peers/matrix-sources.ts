/** The seven variants of a source, as real servers or files, each with content of its own. */
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';

import { writeResourceFile, type MeshResource } from '../../support/mesh.js';
import { stoppedWith } from '../../support/stopped-with.js';
import { ControlPlane } from './control-plane.js';
import { quickTimers } from './rig.js';

/** `api_type` of a control plane, or the form of a directory: ours, or DiscoveryResponses as Envoy reads them. */
export const sourceVariants = [
  'AGGREGATED_DELTA_GRPC',
  'AGGREGATED_GRPC',
  'DELTA_GRPC',
  'GRPC',
  'REST',
  'path',
  'path_config_source',
] as const;
export type SourceVariant = (typeof sourceVariants)[number];

export const isDirectory = (variant: SourceVariant): boolean => variant.startsWith('path');

/** The next variant: the alternative of a source is of another one. */
export function nextVariant(variant: SourceVariant): SourceVariant {
  const at = sourceVariants.indexOf(variant);
  return sourceVariants[(at + 1) % sourceVariants.length]!;
}

type Json = Readonly<Record<string, unknown>>;

/**
 * One go-control-plane for all variants over the network, and one directory for each source of files.
 * A control plane tells sources apart by the node ids that the map gives them.
 */
export class Site {
  readonly #plane: ControlPlane;
  readonly #directory: string;
  readonly #paths = new Set<string>();
  readonly #published = new Map<string, readonly MeshResource[]>();

  private constructor(plane: ControlPlane, directory: string) {
    this.#plane = plane;
    this.#directory = directory;
  }

  static async start(t: Test, name: string): Promise<Site> {
    const options = { name, byNode: true, perType: true };
    const plane = await stoppedWith(t, ControlPlane.start(options));
    const directory = await mkdtemp(join(tmpdir(), `tributary-${name}-`));
    t.teardown(() => rm(directory, { recursive: true, force: true }));
    return new Site(plane, directory);
  }

  /** The source of the authority map with the content of this id. */
  source(variant: SourceVariant, id: string): Json {
    const path = join(this.#directory, id);
    if (variant === 'path') return { path };
    if (variant === 'path_config_source')
      return { config_source: { path_config_source: { path } } };
    const isRest = variant === 'REST';
    return {
      target: `127.0.0.1:${isRest ? this.#plane.restPort : this.#plane.xdsPort}`,
      insecure: true,
      api_type: variant,
      node: { id },
      // All entries are asked for the names of all cells, and a group returns when the names that its source lacks
      // are known to be absent.
      timers: { ...quickTimers, resource_timeout: '2s' },
      ...(isRest && { refresh_delay: '300ms', request_timeout: '2s' }),
    };
  }

  /** Replaces the content of one source. */
  async publish(
    variant: SourceVariant,
    id: string,
    resources: readonly MeshResource[],
  ): Promise<void> {
    if (!isDirectory(variant)) {
      this.#published.set(id, resources);
      await this.#plane.setSnapshot(id, resources);
      return;
    }
    const path = join(this.#directory, id);
    if (!this.#paths.has(path)) await mkdir(path);
    this.#paths.add(path);
    if (variant === 'path') await writeResourceFile(path, resources);
    else await writeResponses(path, resources);
  }

  /** The methods of all streams so far, and the paths of all polls, for each node id. */
  async requested(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
    const { streams, fetches } = await this.#plane.streams();
    const seen = new Map<string, Set<string>>();
    for (const { nodeId, method } of streams) addTo(seen, nodeId, method);
    for (const { nodeId, path } of fetches ?? []) addTo(seen, nodeId, path);
    return seen;
  }

  /** The control plane gets SIGKILL, and the directories are gone. */
  async kill(): Promise<void> {
    await this.#plane.kill();
    for (const path of this.#paths) await rename(path, `${path}.gone`);
  }

  /** After {@link kill}: with the same content, on the same ports. */
  async restart(): Promise<void> {
    for (const path of this.#paths) await rename(`${path}.gone`, path);
    await this.#plane.restart();
    for (const [id, resources] of this.#published) await this.#plane.setSnapshot(id, resources);
  }

  logs(): string {
    return this.#plane.logs();
  }
}

function addTo(seen: Map<string, Set<string>>, id: string, what: string): void {
  const known = seen.get(id) ?? new Set();
  seen.set(id, known.add(what));
}

/** A DiscoveryResponse for each type, each replaced in one step. */
async function writeResponses(path: string, resources: readonly MeshResource[]): Promise<void> {
  for (const typeUrl of new Set(resources.map((one) => one.typeUrl))) {
    const own = resources.filter((one) => one.typeUrl === typeUrl).map(({ json }) => json);
    const file = join(path, `${typeUrl.slice(typeUrl.lastIndexOf('.') + 1)}.json`);
    await writeFile(
      `${file}.next`,
      JSON.stringify({ version_info: '1', type_url: typeUrl, resources: own }),
    );
    await rename(`${file}.next`, file);
  }
}
