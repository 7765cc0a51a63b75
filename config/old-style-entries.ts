/** Reads the section `old_style_names` of the authority map. */
import type { NodeField } from '../protos/node-scope.js';
import { TYPE_URL_PREFIX } from '../protos/type-urls.js';
import { readFailover, readSourceNames, warnOfNoChoice } from './authority-entries.js';
import type { Cursor } from './cursor.js';
import type { OldStyleEntrySpec, OldStyleSpec } from './model.js';
import { didYouMean, nearestWord } from './nearest.js';
import type { SourceEntry } from './source-entries.js';

const DEFAULT_DIFFER_BY: readonly NodeField[] = ['id', 'cluster'];
const FIELDS = ['id', 'cluster', 'locality'] as const;
const METADATA = 'metadata.';
const FIELDS_REMEDY = `write ${FIELDS.join(', ')} or ${METADATA}<key>`;

/** @returns undefined if the section is absent: the gateway then refuses old-style names */
export function readOldStyle(
  at: Cursor,
  sources: readonly SourceEntry[],
): OldStyleSpec | undefined {
  if (at.object() === undefined) return undefined;
  const known = new Set(sources.map(({ name }) => name));
  const differBy = at.field('differ_by');
  const servedBy = at
    .field('served_by')
    .items()
    .map((entry, index) => readEntry(entry, index, known));
  return {
    differBy: differBy.present ? readDifferBy(differBy) : DEFAULT_DIFFER_BY,
    servedBy: servedBy.filter((entry) => entry.sources.length > 0),
  };
}

function readDifferBy(at: Cursor): readonly NodeField[] {
  const fields: NodeField[] = [];
  for (const item of at.items()) {
    const text = item.string();
    if (text === undefined) continue;
    const field = nodeFieldOf(text);
    if (field === undefined) {
      const isNear = nearestWord(text, FIELDS) !== undefined;
      const remedy = isNear ? didYouMean(text, FIELDS) : FIELDS_REMEDY;
      item.problem(`${JSON.stringify(text)} is not a Node field that differ_by supports`, remedy);
    } else if (fields.includes(field)) item.problem(`${JSON.stringify(text)} is listed twice`);
    else fields.push(field);
  }
  return fields;
}

function nodeFieldOf(text: string): NodeField | undefined {
  const field = FIELDS.find((one) => one === text);
  if (field !== undefined) return field;
  const key = text.startsWith(METADATA) ? text.slice(METADATA.length) : '';
  return key === '' ? undefined : `${METADATA}${key}`;
}

function readEntry(entry: Cursor, index: number, known: ReadonlySet<string>): OldStyleEntrySpec {
  const sources = readSourceNames(entry, known);
  const failover = entry.field('failover');
  if (sources.length === 1) warnOfNoChoice(failover, 'there is one source');
  const types = entry.field('types');
  return {
    name: `old-style/${index}`,
    sources,
    alternatives: [],
    failover: readFailover(failover),
    ignoreDeletion: entry.field('ignore_deletion').boolean() ?? false,
    types: types.present ? readTypes(types) : undefined,
  };
}

function readTypes(at: Cursor): readonly string[] {
  const types: string[] = [];
  for (const item of at.items()) {
    const text = item.string();
    if (text === undefined || text === '') continue;
    const typeUrl = text.includes('/') ? text : TYPE_URL_PREFIX + text;
    if (types.includes(typeUrl)) item.problem(`${JSON.stringify(text)} is listed twice`);
    else types.push(typeUrl);
  }
  return types;
}
