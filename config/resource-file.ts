/**
 * Parses a resource file of a filesystem source. Each document of the file is one resource, a list of
 * resources, or `resources:` with such a list. A resource is a message with `@type`, or
 * `{ name, resource: { "@type": … } }` to serve it under another name than the payload's own.
 *
 * The file may also be a DiscoveryResponse as Envoy reads it (`path_config_source`), which has
 * `version_info` and `type_url` beside `resources`. A resource may be in a
 * `envoy.service.discovery.v3.Resource`. Its TTL has no effect, as in Envoy: the file says that the
 * resource exists.
 */
import { isObject } from '../protos/json-object.js';
import { resourceFromJson } from '../protos/json-resources.js';
import { shortTypeOf, TYPE_URL, TYPE_URL_PREFIX } from '../protos/type-urls.js';
import { toCamelCase } from './defaults.js';
import { encodedFormOf, parseEncodedFile } from './encoded-file.js';
import type { FileResource, ResourceFileResult } from './file-resource.js';
import { jsonDocument } from './json-document.js';
import { didYouMean } from './nearest.js';
import { sortProblems, type Path, type Problem } from './problems.js';
import { readDocuments, type DocumentsRead, type PositionedDocument } from './yaml-positions.js';

/**
 * A file → its resources in its order, or all problems. One bad resource refuses its whole document (YAML
 * separates them by `---`): skipping it would look like a removal. The other documents are read. An empty
 * file has no resources.
 * @param text YAML 1.2 or JSON, or in the form of the file's suffix: `.pb` (bytes, one per character),
 * `.pb_text` or `.textproto`
 * @param file the path that problems show
 */
export function parseResourceFile(text: string, file: string): ResourceFileResult {
  const form = encodedFormOf(file);
  if (form) return parseEncodedFile(text, file, form);
  const { documents, problems: unreadable } = readText(text, file);
  const problems = [...unreadable];
  const resources: FileResource[] = [];
  const seen = new Set<string>();
  for (const document of documents) {
    const before = problems.length;
    const here: FileResource[] = [];
    const { entries, typeUrl } = entriesOf(document, problems);
    for (const [path, value] of entries) {
      const read = readResource(document, path, value, typeUrl);
      if ('message' in read) {
        problems.push(read);
        continue;
      }
      const key = `${read.typeUrl} ${read.name}`;
      if (seen.has(key)) {
        problems.push(
          document.problem(
            path,
            `duplicate ${shortTypeOf(read.typeUrl)} ${JSON.stringify(read.name)}`,
          ),
        );
      }
      seen.add(key);
      here.push(read);
    }
    if (problems.length === before) resources.push(...here);
  }
  return problems.length > 0
    ? { ok: false, problems: sortProblems(problems), resources }
    : { ok: true, resources };
}

function readText(text: string, file: string): Pick<DocumentsRead, 'documents' | 'problems'> {
  const slowly = (): DocumentsRead => readDocuments(text, file, { isSecret: true });
  const json = jsonDocument(text, file, () => slowly().documents[0]);
  return json ? { documents: [json], problems: [] } : slowly();
}

interface Entries {
  readonly entries: readonly (readonly [Path, unknown])[];
  /** The `type_url` of a DiscoveryResponse. */
  readonly typeUrl?: string | undefined;
}

/** The fields of a DiscoveryResponse beside `resources`. Only `type_url` has an effect. */
const RESPONSE_FIELDS = ['version_info', 'type_url', 'nonce', 'canary', 'control_plane'];
const RESPONSE_KEYS = new Set(RESPONSE_FIELDS.flatMap((name) => [name, toCamelCase(name)]));
const RESPONSE_TYPE = `${TYPE_URL_PREFIX}envoy.service.discovery.v3.DiscoveryResponse`;

function entriesOf(document: PositionedDocument, problems: Problem[]): Entries {
  const { value } = document;
  if (value === null || value === undefined) return { entries: [] };
  if (Array.isArray(value)) {
    return { entries: value.map((item: unknown, index) => [[index], item] as const) };
  }
  if (!isObject(value) || !isResponse(value)) return { entries: [[[], value]] };
  for (const key of Object.keys(value)) {
    if (key === 'resources' || key === '@type' || RESPONSE_KEYS.has(key)) continue;
    const known = ['resources', ...RESPONSE_FIELDS];
    problems.push(document.problem([key], 'unknown key', didYouMean(key, known), 'key'));
  }
  const typeKey = Object.hasOwn(value, 'typeUrl') ? 'typeUrl' : 'type_url';
  const { [typeKey]: typeUrl, resources: list } = value;
  const isText = typeUrl === undefined || typeof typeUrl === 'string';
  if (!isText) problems.push(document.problem([typeKey], 'must be text'));
  const said = { typeUrl: isText && typeUrl !== '' ? typeUrl : undefined };
  if (list === null || list === undefined) return { entries: [], ...said };
  if (Array.isArray(list)) {
    const entries = list.map((item: unknown, index) => [['resources', index], item] as const);
    return { entries, ...said };
  }
  problems.push(document.problem(['resources'], 'must be a list'));
  return { entries: [] };
}

/** A list of resources, or a DiscoveryResponse: not a resource. */
function isResponse(value: Readonly<Record<string, unknown>>): boolean {
  if (Object.hasOwn(value, '@type')) return value['@type'] === RESPONSE_TYPE;
  if (Object.hasOwn(value, 'resources')) return true;
  // Without resources it may be an empty set.
  const keys = Object.keys(value);
  return keys.length > 0 && keys.every((key) => RESPONSE_KEYS.has(key));
}

/** @param typeUrl the type of all resources of the file; undefined: any */
function readResource(
  document: PositionedDocument,
  path: Path,
  value: unknown,
  typeUrl: string | undefined,
): FileResource | Problem {
  const isWrapped = isObject(value) && value['@type'] === TYPE_URL.resource;
  const isNamed = isObject(value) && !Object.hasOwn(value, '@type') && 'resource' in value;
  const problem = isWrapped
    ? problemOfWrapper(document, path, value)
    : isNamed
      ? problemOfNamed(document, path, value)
      : undefined;
  if (problem) return problem;
  const bodyPath = isWrapped || isNamed ? [...path, 'resource'] : path;
  const read = resourceFromJson(isWrapped || isNamed ? value['resource'] : value);
  if (!read.ok)
    return document.problem([...bodyPath, ...read.path], read.message, undefined, read.part);
  if (typeUrl !== undefined && read.typeUrl !== typeUrl) {
    const remedy = 'correct type_url, or write a file for each type';
    return document.problem([...bodyPath, '@type'], `is not the type_url ${typeUrl}`, remedy);
  }
  const given = isWrapped || isNamed ? value['name'] : undefined;
  const name = typeof given === 'string' && given !== '' ? given : read.name;
  if (name === '') {
    const remedy = 'write { name: …, resource: … }';
    return document.problem(bodyPath, `this ${shortTypeOf(read.typeUrl)} has no name`, remedy);
  }
  return { name, typeUrl: read.typeUrl, body: read.body };
}

/** `{ name, resource }`, our own form. */
function problemOfNamed(
  document: PositionedDocument,
  path: Path,
  value: Readonly<Record<string, unknown>>,
): Problem | undefined {
  const key = Object.keys(value).find((name) => name !== 'name' && name !== 'resource');
  if (key !== undefined) {
    const remedy = didYouMean(key, ['name', 'resource']);
    return document.problem([...path, key], 'unknown key', remedy, 'key');
  }
  const { name } = value;
  if (name === undefined || (typeof name === 'string' && name !== '')) return undefined;
  return document.problem([...path, 'name'], 'must be non-empty text');
}

/** A `Resource` of the protocol. */
function problemOfWrapper(
  document: PositionedDocument,
  path: Path,
  value: Readonly<Record<string, unknown>>,
): Problem | undefined {
  if (!isObject(value['resource'])) {
    return document.problem(path, 'has no resource', 'write resource: { "@type": … }');
  }
  const read = resourceFromJson(value);
  if (read.ok) return undefined;
  return document.problem([...path, ...read.path], read.message, undefined, read.part);
}
