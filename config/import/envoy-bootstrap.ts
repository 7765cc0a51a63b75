/** Turns an Envoy bootstrap (`envoy.config.bootstrap.v3.Bootstrap`, proto3 JSON) into an authority map. */
import { isObject } from '../../protos/json-object.js';
import { EnvoySources } from './envoy-sources.js';
import { field, listOf, textOf, type Json } from './json-fields.js';
import { MapDraft } from './map-draft.js';
import { TYPE_URL } from '../../protos/type-urls.js';

/** The fields that become part of the map. */
const READ = new Set(
  ['@type', 'node', 'static_resources', 'dynamic_resources', 'config_sources'].concat(
    'default_config_source',
  ),
);

const short = (typeUrl: string): string => typeUrl.slice(typeUrl.indexOf('/') + 1);
const CLUSTER_TYPES = [TYPE_URL.cluster, TYPE_URL.clusterLoadAssignment].map(short);

/** @param file the name of the bootstrap, for the comment. @returns YAML */
export function importEnvoyBootstrap(bootstrap: unknown, file: string): string {
  const draft = new MapDraft();
  const dynamic = field(bootstrap, 'dynamic_resources');
  const clusters = new Map(
    listOf(field(bootstrap, 'static_resources'), 'clusters').map((cluster) => [
      textOf(cluster, 'name') ?? '',
      cluster,
    ]),
  );
  const sources = new EnvoySources({ draft, clusters, ads: field(dynamic, 'ads_config') });
  for (const [index, source] of listOf(bootstrap, 'config_sources').entries()) {
    const names = sources.of(source, `config_sources[${index}]`);
    for (const authority of listOf(source, 'authorities')) {
      draft.addAuthority(textOf(authority, 'name') ?? '', names);
    }
  }
  const byDefault = field(bootstrap, 'default_config_source');
  if (byDefault !== undefined) {
    draft.defaultSources = sources.of(byDefault, 'default_config_source');
  }
  readDynamic(dynamic, sources, draft);
  const node = field(bootstrap, 'node');
  if (node !== undefined) readNode(node, draft);
  noteRest(bootstrap, sources, clusters, draft);
  return draft.toYaml([
    `Imported from the Envoy bootstrap ${file}. Check it with: tributary validate`,
    'Envoys then need a bootstrap that leads to the gateway: tributary bootstrap envoy',
  ]);
}

/** Clusters and listeners: a collection of an authority (`…_resources_locator`), or old-style names. */
function readDynamic(dynamic: unknown, sources: EnvoySources, draft: MapDraft): void {
  const [cds, lds] = (['cds', 'lds'] as const).map((kind) => {
    const config = field(dynamic, `${kind}_config`);
    const locator = textOf(dynamic, `${kind}_resources_locator`);
    if (config === undefined && locator === undefined) return [];
    const at = `dynamic_resources.${kind}_config`;
    const names = config === undefined ? sources.ofAds(at) : sources.of(config, at);
    if (locator === undefined) return names;
    const authority = /^xdstp:\/\/([^/?#]*)/.exec(locator)?.[1] ?? '';
    const isServed = draft.hasAuthority(authority) || draft.defaultSources.length > 0;
    if (!isServed) draft.addAuthority(authority, names);
    return [];
  });
  if (cds === undefined || lds === undefined) return;
  const isOne = cds.join() === lds.join() || cds.length === 0 || lds.length === 0;
  const all = [...new Set([...cds, ...lds])];
  if (all.length > 0) {
    draft.oldStyle = isOne
      ? [{ sources: all }]
      : [{ sources: cds, types: CLUSTER_TYPES }, { sources: lds }];
    return;
  }
  const isAdsOnly = field(dynamic, 'ads_config') !== undefined && !draft.hasSources;
  if (isAdsOnly) draft.oldStyle = [{ sources: sources.ofAds('dynamic_resources.ads_config') }];
}

function readNode(node: unknown, draft: MapDraft): void {
  if (draft.oldStyle.length > 0) {
    draft.note(
      'node',
      'each client sends its own; old_style_names.differ_by says which of its fields sources get',
    );
    return;
  }
  const kept = ['id', 'cluster', 'locality', 'metadata', 'dynamic_parameters'];
  const copy = Object.fromEntries(
    kept.flatMap((name) => {
      const value = field(node, name);
      return value === undefined ? [] : [[name, value] as const];
    }),
  ) as Json;
  if (textOf(node, 'id') !== undefined) draft.setNode(copy);
  for (const name of Object.keys(isObject(node) ? node : {})) {
    if (!kept.includes(name)) draft.note(`node.${name}`, 'is not sent by the gateway');
  }
}

/** Everything else stays in the bootstrap of the Envoys. */
function noteRest(
  bootstrap: unknown,
  sources: EnvoySources,
  clusters: ReadonlyMap<string, unknown>,
  draft: MapDraft,
): void {
  const stays = 'stays in the bootstrap of Envoy';
  for (const name of clusters.keys()) {
    if (!sources.usedClusters.has(name)) draft.note(`static_resources.clusters.${name}`, stays);
  }
  const fixed = field(bootstrap, 'static_resources');
  for (const name of Object.keys(isObject(fixed) ? fixed : {})) {
    if (name !== 'clusters') draft.note(`static_resources.${name}`, stays);
  }
  for (const name of Object.keys(isObject(bootstrap) ? bootstrap : {})) {
    const isRead = READ.has(name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
    if (!isRead) draft.note(name, name === 'admin' ? stays : (NOTES[name] ?? stays));
  }
}

const NOTES: Readonly<Record<string, string>> = {
  cluster_manager:
    'stays in the bootstrap of Envoy; the gateway passes load reports on (load_stats_config)',
  hds_config: 'the gateway does not offer health discovery',
};
