/** Reads the section `old_style_names` of the authority map. */
import type { NodeField } from '../protos/node-scope.js';
import { readFailover, readSourceNames, warnOfNoChoice } from './authority-entries.js';
import type { Cursor } from './cursor.js';
import type { OldStyleEntrySpec, OldStyleSpec } from './model.js';
import { readConditions, readNodeFields } from './node-fields.js';
import { scopeRuleOf } from './scope-rule.js';
import type { SourceEntry } from './source-entries.js';
import { likelyType, readType } from './type-names.js';

/** The fields by which most control planes choose what to send. */
export const DEFAULT_DIFFER_BY: readonly NodeField[] = ['id', 'cluster'];

/** @returns undefined if the section is absent: the gateway then refuses old-style names, unless `default_config_source` serves them */
export function readOldStyle(
  at: Cursor,
  sources: readonly SourceEntry[],
): OldStyleSpec | undefined {
  if (at.object() === undefined) return undefined;
  const known = new Set(sources.flatMap(({ name, isDefault }) => (isDefault ? [] : [name])));
  const differBy = at.field('differ_by');
  const servedBy = at
    .field('served_by')
    .items()
    .map((entry, index) => readEntry(entry, index, known))
    .filter((entry) => entry.sources.length > 0);
  const fields = differBy.present ? readNodeFields(differBy, 'differ_by') : DEFAULT_DIFFER_BY;
  const specs = sources.flatMap(({ spec }) => (spec?.kind === 'grpc' ? [spec] : []));
  const rule = scopeRuleOf(fields, servedBy, specs);
  return { differBy: fields, servedBy, ...(rule ? { rule } : {}) };
}

function readEntry(entry: Cursor, index: number, known: ReadonlySet<string>): OldStyleEntrySpec {
  const sources = readSourceNames(entry, known);
  const failover = entry.field('failover');
  if (sources.length === 1) warnOfNoChoice(failover, 'there is one source');
  const types = entry.field('types');
  const when = readConditions(entry.field('for'));
  return {
    name: `old-style/${index}`,
    sources,
    alternatives: [],
    failover: readFailover(failover),
    ignoreDeletion: entry.field('ignore_deletion').boolean() ?? false,
    types: types.present ? readTypes(types) : undefined,
    ...(when.length > 0 ? { when } : {}),
  };
}

function readTypes(at: Cursor): readonly string[] {
  const types: string[] = [];
  for (const item of at.items()) {
    const text = item.string();
    if (text === undefined || text === '') continue;
    const read = readType(text);
    if (!read.ok) {
      item.problem(read.message, read.remedy);
      continue;
    }
    const { typeUrl } = read;
    const likely = likelyType(typeUrl);
    if (likely !== undefined) {
      item.warn(`no client asks for ${text}`, `did you mean ${JSON.stringify(likely)}?`);
    }
    if (types.includes(typeUrl)) item.problem(`${JSON.stringify(text)} is listed twice`);
    else types.push(typeUrl);
  }
  return types;
}
