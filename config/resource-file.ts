/**
 * Parses a resource file of a filesystem source. Each document of the file is one resource, a list of
 * resources, or `resources:` with such a list. A resource is a message with `@type`, or
 * `{ name, resource: { "@type": … } }` to serve it under another name than the payload's own.
 */
import { resourceFromJson } from '../protos/json-resources.js';
import { didYouMean } from './nearest.js';
import { sortProblems, type Path, type Problem } from './problems.js';
import { readDocuments, type PositionedDocument } from './yaml-positions.js';

export interface FileResource {
  readonly name: string;
  readonly typeUrl: string;
  /** The `value` of the `Any`. */
  readonly body: Uint8Array;
}

export type ResourceFileResult =
  | { readonly ok: true; readonly resources: readonly FileResource[] }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/**
 * YAML 1.2 or JSON text → its resources in the order of the file, or all problems. One bad resource
 * refuses the whole file: skipping it would look like a removal. An empty file has no resources.
 * @param file the path that problems show
 */
export function parseResourceFile(text: string, file: string): ResourceFileResult {
  const { documents, problems: unreadable } = readDocuments(text, file);
  const problems = [...unreadable];
  const resources: FileResource[] = [];
  const seen = new Set<string>();
  for (const document of documents) {
    for (const [path, value] of entriesOf(document, problems)) {
      const read = readResource(document, path, value);
      if ('message' in read) {
        problems.push(read);
        continue;
      }
      const key = `${read.typeUrl} ${read.name}`;
      if (seen.has(key)) {
        problems.push(
          document.problem(
            path,
            `duplicate ${shortType(read.typeUrl)} ${JSON.stringify(read.name)}`,
          ),
        );
      }
      seen.add(key);
      resources.push(read);
    }
  }
  return problems.length > 0
    ? { ok: false, problems: sortProblems(problems) }
    : { ok: true, resources };
}

function entriesOf(
  document: PositionedDocument,
  problems: Problem[],
): readonly (readonly [Path, unknown])[] {
  const { value } = document;
  if (value === null || value === undefined) return [];
  if (Array.isArray(value)) return value.map((item: unknown, index) => [[index], item] as const);
  if (!isObject(value) || !Object.hasOwn(value, 'resources') || Object.hasOwn(value, '@type')) {
    return [[[], value]];
  }
  for (const key of Object.keys(value).filter((name) => name !== 'resources')) {
    problems.push(document.problem([key], 'unknown key', didYouMean(key, ['resources']), 'key'));
  }
  const list = value['resources'];
  if (list === null) return [];
  if (Array.isArray(list))
    return list.map((item: unknown, index) => [['resources', index], item] as const);
  problems.push(document.problem(['resources'], 'must be a list'));
  return [];
}

function readResource(
  document: PositionedDocument,
  path: Path,
  value: unknown,
): FileResource | Problem {
  const wrapped =
    isObject(value) && !Object.hasOwn(value, '@type') && Object.hasOwn(value, 'resource');
  const asked = wrapped ? value['name'] : undefined;
  const bodyPath = wrapped ? [...path, 'resource'] : path;
  if (wrapped) {
    const key = Object.keys(value).find((name) => name !== 'name' && name !== 'resource');
    if (key !== undefined) {
      return document.problem(
        [...path, key],
        'unknown key',
        didYouMean(key, ['name', 'resource']),
        'key',
      );
    }
  }
  if (asked !== undefined && (typeof asked !== 'string' || asked === '')) {
    return document.problem([...path, 'name'], 'must be non-empty text');
  }
  const read = resourceFromJson(wrapped ? value['resource'] : value);
  if (!read.ok)
    return document.problem([...bodyPath, ...read.path], read.message, undefined, read.part);
  const name = asked ?? read.name;
  if (name === '') {
    const remedy = 'write { name: …, resource: … }';
    return document.problem(bodyPath, `this ${shortType(read.typeUrl)} has no name`, remedy);
  }
  return { name, typeUrl: read.typeUrl, body: read.body };
}

/** `type.googleapis.com/envoy.config.cluster.v3.Cluster` → `Cluster`. */
function shortType(typeUrl: string): string {
  return typeUrl.slice(typeUrl.lastIndexOf('.') + 1);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
