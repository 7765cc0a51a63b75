import { readFileSync } from 'node:fs';
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { toSnakeCase } from './defaults.js';
import { notAQuantity, parseDuration, parseSize, type Quantity } from './durations.js';
import { didYouMean, nearestWord } from './nearest.js';
import type { Path, Problem } from './problems.js';
import { remedyForField } from './refused-fields.js';
import type { PositionedDocument } from './yaml-positions.js';

/** Relative to `build/config/`, or to `config/` in any other output directory beside `build/`. */
const SCHEMA_URL = new URL('../../config/authority-map.schema.json', import.meta.url);

const AJV_OPTIONS = {
  allErrors: true,
  verbose: true,
  allowUnionTypes: true,
  // It is compiled at each start. Without these three that takes more than twice as long, and a large map is validated no faster. A
  // test validates the schema itself.
  inlineRefs: false,
  code: { optimize: false },
  validateSchema: false,
} as const;

let validate: ValidateFunction | undefined;
let sections: Readonly<Record<string, SchemaObject>> | undefined;

/** The published JSON Schema. Reads the file, which is the only IO in this module. */
export function authorityMapSchema(): Record<string, unknown> {
  return JSON.parse(readFileSync(SCHEMA_URL, 'utf8')) as Record<string, unknown>;
}

/**
 * Validates a document against the published schema, compiled on first use, and words the errors
 * for operators.
 */
export function schemaProblems(document: PositionedDocument): readonly Problem[] {
  validate ??= new Ajv2020(AJV_OPTIONS).compile(authorityMapSchema());
  if (validate(document.value)) return [];
  return (validate.errors ?? []).flatMap((error) => toProblem(error, document) ?? []);
}

interface SchemaObject {
  readonly title?: string;
  readonly type?: string | readonly string[];
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, unknown>>;
}

function toProblem(error: ErrorObject, document: PositionedDocument): Problem | undefined {
  const path = pointerToPath(error.instancePath, document.value);
  const schema = error.parentSchema as SchemaObject;
  const params = error.params as Readonly<Record<string, unknown>>;
  switch (error.keyword) {
    case 'if': // The error of its `then` or `else` has the details.
      return undefined;
    case 'additionalProperties':
      return unknownKey(document, path, schema, String(params['additionalProperty']));
    case 'required':
      return document.problem(
        path,
        `has no ${String(params['missingProperty'])}`,
        undefined,
        'key',
      );
    case 'type':
    case 'pattern':
      return wrongValue(document, path, schema, error.data);
    case 'enum':
      return wrongChoice(document, path, params['allowedValues'] as readonly unknown[], error.data);
    case 'minItems':
    case 'minLength':
      return document.problem(path, 'must not be empty');
    case 'minimum':
    case 'exclusiveMinimum':
    case 'maximum':
      return outOfRange(document, path, error.keyword, Number(params['limit']), error.data);
    default:
      return document.problem(path, error.message ?? error.keyword);
  }
}

function unknownKey(
  document: PositionedDocument,
  path: Path,
  schema: SchemaObject,
  key: string,
): Problem {
  const at = [...path, key];
  const unsupported = remedyForField(schema.title ?? '', toSnakeCase(key));
  if (unsupported !== undefined) {
    return document.problem(at, `${toSnakeCase(key)} is not supported yet`, unsupported, 'key');
  }
  const known = Object.keys(schema.properties ?? {}).filter((name) => name === toSnakeCase(name));
  const remedy = misplacedRemedy(key, schema) ?? didYouMean(key, known);
  return document.problem(at, 'unknown key', remedy, 'key');
}

/** For a key that YAML 1.2 does not have, and for one that belongs into a section beside it. */
function misplacedRemedy(key: string, { properties = {} }: SchemaObject): string | undefined {
  if (key === '<<') return 'YAML 1.2 has no merge keys: write the keys themselves';
  if (key.startsWith('//')) return 'a comment begins with #';
  const section = Object.entries(properties).find(([, value]) => {
    const inner = sectionOf(value as SchemaObject)?.properties;
    return inner !== undefined && Object.hasOwn(inner, key);
  });
  return section && `it belongs into ${section[0]}: { ${key}: … }`;
}

/** @returns undefined if the schema refers to none of the sections */
function sectionOf({ $ref = '' }: SchemaObject): SchemaObject | undefined {
  sections ??= authorityMapSchema()['$defs'] as Readonly<Record<string, SchemaObject>>;
  return sections[$ref.replace('#/$defs/', '')];
}

function wrongValue(
  document: PositionedDocument,
  path: Path,
  schema: SchemaObject,
  data: unknown,
): Problem {
  if (schema.title === 'duration' || schema.title === 'size') {
    const quantity = describeQuantity(data, schema.title);
    if (!quantity.ok) return document.problem(path, quantity.message, quantity.remedy);
  }
  const types = [schema.type ?? 'a valid value'].flat();
  const words = types.map((type) => TYPE_WORDS[type] ?? type).join(' or ');
  const message = `must be ${words}, not ${describe(data)}`;
  return document.problem(path, message, typeRemedy(types, data));
}

/** What the operator probably meant by a text of another type. */
function typeRemedy(types: readonly string[], data: unknown): string | undefined {
  if (typeof data !== 'string') return undefined;
  if (types.includes('boolean')) {
    if (/^(yes|on|true|y)$/i.test(data)) return 'write true';
    return /^(no|off|false|n)$/i.test(data) ? 'write false' : undefined;
  }
  return types.includes('array') ? `write [${data}]` : undefined;
}

function outOfRange(
  document: PositionedDocument,
  path: Path,
  keyword: 'minimum' | 'exclusiveMinimum' | 'maximum',
  limit: number,
  data: unknown,
): Problem {
  const words = {
    minimum: `${limit} or more`,
    exclusiveMinimum: `more than ${limit}`,
    maximum: `${limit} or less`,
  }[keyword];
  return document.problem(path, `must be ${words}, not ${describe(data)}`);
}

function describeQuantity(data: unknown, kind: 'duration' | 'size'): Quantity {
  if (typeof data !== 'string') return notAQuantity(data, kind);
  return kind === 'duration' ? parseDuration(data) : parseSize(data);
}

function wrongChoice(
  document: PositionedDocument,
  path: Path,
  allowed: readonly unknown[],
  data: unknown,
): Problem {
  const names = allowed.filter((value): value is string => typeof value === 'string');
  const nearest = typeof data === 'string' ? nearestWord(data, names) : undefined;
  return document.problem(
    path,
    `must be one of ${names.join(', ')}, not ${describe(data)}`,
    nearest === undefined ? undefined : `did you mean ${JSON.stringify(nearest)}?`,
  );
}

const TYPE_WORDS: Readonly<Record<string, string>> = {
  object: 'a map',
  array: 'a list',
  string: 'text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
};

function describe(data: unknown): string {
  if (data === null || data === undefined) return 'empty';
  if (Array.isArray(data)) return 'a list';
  if (typeof data === 'object') return 'a map';
  return JSON.stringify(data);
}

/** JSON Pointer (RFC 6901) → path. A step is an index only inside a list of the document. */
function pointerToPath(pointer: string, root: unknown): Path {
  const path: (string | number)[] = [];
  let value = root;
  for (const escaped of pointer.split('/').slice(1)) {
    const step = escaped.replaceAll('~1', '/').replaceAll('~0', '~');
    path.push(Array.isArray(value) ? Number(step) : step);
    value = (value as Record<string, unknown> | null)?.[step];
  }
  return path;
}
