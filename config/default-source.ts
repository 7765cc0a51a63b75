/**
 * Reads `default_config_source` of the authority map: the sources of names that no other section of the
 * map gives a source. An authority of the map beats it (TP1, "Authority resolution").
 */
import { readFailover, readSourceNames, warnOfNoChoice } from './authority-entries.js';
import type { Cursor } from './cursor.js';
import { DEFAULT_AUTHORITY } from './defaults.js';
import type { AuthoritySpec, OldStyleSpec } from './model.js';
import { DEFAULT_DIFFER_BY } from './old-style-entries.js';
import type { SourceEntry } from './source-entries.js';

/** @returns undefined if the section is absent */
export function readDefaultSource(
  at: Cursor,
  sources: readonly SourceEntry[],
): AuthoritySpec | undefined {
  if (at.object() === undefined) return undefined;
  const known = new Set(sources.flatMap(({ name, isDefault }) => (isDefault ? [] : [name])));
  const names = readSourceNames(at, known);
  const failover = at.field('failover');
  if (names.length === 1) warnOfNoChoice(failover, 'there is one source');
  return {
    name: DEFAULT_AUTHORITY,
    sources: names,
    alternatives: [],
    failover: readFailover(failover),
    ignoreDeletion: at.field('ignore_deletion').boolean() ?? false,
  };
}

/** Reports ConfigSources that mean `default_config_source` where the map has none. */
export function checkReferences(
  sources: readonly SourceEntry[],
  spec: AuthoritySpec | undefined,
): void {
  for (const { at, isDefault } of sources) {
    if (!isDefault || spec) continue;
    const field = at.field('ads').value === undefined ? at.field('self') : at.field('ads');
    const remedy = 'write default_config_source: { sources: [name of a source] }';
    field.problem('means default_config_source, which the map does not have', remedy, 'key');
  }
}

/** Old-style names from the default sources, for a map without `old_style_names`. */
export const oldStyleOfDefault = (spec: AuthoritySpec): OldStyleSpec => ({
  differBy: DEFAULT_DIFFER_BY,
  servedBy: [{ ...spec, name: 'old-style/0', types: undefined }],
});
