/**
 * Parses the operator's authority map: which control plane owns which `xdstp://` authority, and which
 * alternative serves its names while that control plane is unreachable (TP1, "Authority resolution").
 */
import { resolve } from 'node:path';
import { readAuthorities } from './authority-entries.js';
import { readClients } from './client-entries.js';
import type { SourceContext } from './channel-parts.js';
import { clusterEntries, readClusters } from './cluster-entries.js';
import { Cursor, type Reporter } from './cursor.js';
import { BOOTSTRAP_WORDS, bootstrapKindOf } from './import/bootstrap-kind.js';
import { checkReferences, oldStyleOfDefault, readDefaultSource } from './default-source.js';
import { deepFreeze } from './freeze.js';
import { fileChecks, filesOnDisk, type MapFiles } from './map-files.js';
import { schemaProblems } from './map-schema.js';
import type { AuthorityMap } from './model.js';
import { readOldStyle } from './old-style-entries.js';
import { checkIdentities } from './scope-rule.js';
import { sortProblems, type Problem } from './problems.js';
import { readRegularFile } from './regular-file.js';
import { checkSharedPolls } from './shared-polls.js';
import { readSources } from './source-entries.js';
import { otherFileAs } from './other-files.js';
import { unreadableFile } from './unreadable-file.js';
import { decodeUtf8, NOT_UTF8, SAVE_AS_UTF8 } from './utf8.js';
import { readDocuments, type PositionedDocument } from './yaml-positions.js';

export type AuthorityMapResult =
  | { readonly ok: true; readonly map: AuthorityMap; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[] };

export interface ParseOptions {
  /** Absolute path for problems. Relative paths in the map are relative to its directory. */
  readonly file: string;
  /** For checks of the certificates, secrets and directories that the map names. Absent: no check. */
  readonly files?: MapFiles;
}

/**
 * YAML 1.2 or JSON text → a frozen map with every default filled in, or all problems in the order of
 * the file. No text makes it throw. The published `authority-map.schema.json` checks the structure; the
 * readers in this folder check the meaning.
 */
export function parseAuthorityMap(text: string, options: ParseOptions): AuthorityMapResult {
  const { documents, isPartial, problems: unreadable } = readDocuments(text, options.file);
  const [document, second] = documents;
  if (document === undefined || isPartial)
    return { ok: false, problems: emptyOr(unreadable, options.file) };
  const problems = [...unreadable];
  if (second !== undefined)
    problems.push(second.problem([], 'unexpected second document', 'keep one'));
  if (document.value === null) return { ok: false, problems: emptyOr(problems, options.file) };
  const other = otherFileAs('map', document.value, options.file);
  if (other) return { ok: false, problems: [document.problem([], other.message, other.remedy)] };
  const kind = bootstrapKindOf(document.value);
  if (kind) {
    const message = `this is ${BOOTSTRAP_WORDS[kind]}, not an authority map`;
    const remedy = `tributary import ${options.file} prints the map`;
    return { ok: false, problems: [document.problem([], message, remedy)] };
  }
  problems.push(...schemaProblems(document));
  const warnings: Problem[] = [];
  const map = readMap(document, options, problems, warnings);
  if (problems.length > 0) return { ok: false, problems: sortProblems(problems) };
  return { ok: true, map: deepFreeze(map), warnings: sortProblems(warnings) };
}

/**
 * Reads and parses the file at `path`. An unreadable file is a problem, not an exception.
 *
 * @param wrongContent what a wrong certificate or key is (`MapFiles`)
 */
export function loadAuthorityMap(
  path: string,
  wrongContent: MapFiles['wrongContent'] = 'warning',
): AuthorityMapResult {
  const file = resolve(path);
  let bytes: Buffer;
  try {
    bytes = readRegularFile(file);
  } catch (error) {
    return { ok: false, problems: [unreadableFile(path, file, error)] };
  }
  const read = decodeUtf8(bytes);
  if (read.ok) return parseAuthorityMap(read.text, { file, files: filesOnDisk(wrongContent) });
  const { line, column } = read;
  const problem = { file, line, column, field: '', message: NOT_UTF8, remedy: SAVE_AS_UTF8 };
  return { ok: false, problems: [problem] };
}

function emptyOr(problems: readonly Problem[], file: string): readonly Problem[] {
  if (problems.length > 0) return sortProblems(problems);
  const remedy = 'write at least sources and authorities';
  return [{ file, line: 1, column: 1, field: '', message: 'the file is empty', remedy }];
}

function readMap(
  document: PositionedDocument,
  options: ParseOptions,
  problems: Problem[],
  warnings: Problem[],
): AuthorityMap {
  const reporter: Reporter = {
    problem: (...args) => problems.push(document.problem(...args)),
    warning: (...args) => warnings.push(document.problem(...args)),
  };
  const root = Cursor.root(document, reporter);
  const checks = fileChecks(options.file, options.files);
  const clusters = readClusters(root, checks);
  const usedClusters = new Set<string>();
  const context: SourceContext = {
    ...checks,
    clusters,
    clusterUsed: (name) => usedClusters.add(name),
  };
  const sources = readSources(root, context);
  for (const [name, entry] of clusterEntries(root)) {
    if (!usedClusters.has(name)) entry.warn('no source uses this cluster', undefined, 'key');
  }
  const defaultAt = root.field('default_config_source');
  const defaultSource = readDefaultSource(defaultAt, sources);
  checkReferences(sources, defaultSource);
  const oldStyle =
    readOldStyle(root.field('old_style_names'), sources) ??
    (defaultSource && oldStyleOfDefault(defaultSource));
  const usedElsewhere = (oldStyle?.servedBy ?? []).flatMap((entry) => entry.sources);
  usedElsewhere.push(...(defaultSource?.sources ?? []));
  const authorities = readAuthorities(root, sources, usedElsewhere, defaultSource?.sources ?? []);
  const shared = new Set([...authorities.values()].flatMap((authority) => authority.sources));
  checkIdentities(sources, oldStyle, shared);
  checkSharedPolls(sources, oldStyle, shared);
  const clients = readClients(root.field('clients'), {
    authorities: [...authorities.keys()],
    servesOthers: defaultSource !== undefined,
    servesOldStyle: oldStyle !== undefined,
  });
  const isEmpty = authorities.size === 0 && !oldStyle && !defaultAt.present;
  if (isEmpty && root.object() !== undefined) {
    root.problem('has no authorities', 'write authorities: { name: { sources: [...] } }');
  }
  return {
    sources: new Map(
      sources.flatMap(({ name, spec }) => (spec === undefined ? [] : [[name, spec]])),
    ),
    authorities,
    ...(oldStyle === undefined ? {} : { oldStyle }),
    ...(defaultSource === undefined ? {} : { defaultSource }),
    ...(clients === undefined ? {} : { clients }),
  };
}
