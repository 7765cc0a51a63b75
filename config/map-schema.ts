import { readFileSync } from 'node:fs';
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { toSnakeCase } from './defaults.js';
import { notAQuantity, parseDuration, parseSize, type Quantity } from './durations.js';
import { didYouMean } from './nearest.js';
import type { Path, Problem } from './problems.js';
import { remedyForField } from './refused-fields.js';
import type { PositionedDocument } from './yaml-positions.js';

/** Relative to `build/config/`, or to `config/` in any other output directory beside `build/`. */
const SCHEMA_URL = new URL('../../config/authority-map.schema.json', import.meta.url);

let validate: ValidateFunction | undefined;

/** The published JSON Schema. Reads the file, which is the only IO in this module. */
export function authorityMapSchema(): Record<string, unknown> {
  return JSON.parse(readFileSync(SCHEMA_URL, 'utf8')) as Record<string, unknown>;
}

/**
 * Validates a document against the published schema, compiled on first use, and words the errors
 * for operators.
 */
export function schemaProblems(document: PositionedDocument): readonly Problem[] {
  validate ??= new Ajv2020({ allErrors: true, verbose: true, allowUnionTypes: true }).compile(
    authorityMapSchema(),
  );
  if (validate(document.value)) return [];
  return (validate.errors ?? []).flatMap((error) => toProblem(error, document) ?? []);
}

interface SchemaObject {
  readonly title?: string;
  readonly type?: string | readonly string[];
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
  return document.problem(at, 'unknown key', didYouMean(key, known), 'key');
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
  const remedy = typeof data === 'string' ? didYouMean(data, names) : undefined;
  return document.problem(
    path,
    `must be one of ${names.join(', ')}, not ${describe(data)}`,
    remedy,
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
