/**
 * Parses a DiscoveryResponse in a form that Envoy reads by the suffix of its file: `.pb` (binary) and
 * `.pb_text` (protobuf text format, also `.textproto`). Each resource may be in a
 * `envoy.service.discovery.v3.Resource`.
 */
import type { WireResource } from '../protos/discovery.js';
import { decodeSotwResponse } from '../protos/sotw-codec.js';
import { parseTextFormat } from '../protos/text-format.js';
import { shortTypeOf } from '../protos/type-urls.js';
import { sortProblems, type Problem } from './problems.js';
import type { FileResource, ResourceFileResult } from './file-resource.js';

export type EncodedForm = 'binary' | 'text';

const RESPONSE = 'envoy.service.discovery.v3.DiscoveryResponse';

/** @returns undefined for YAML and JSON, which every other suffix means */
export function encodedFormOf(file: string): EncodedForm | undefined {
  if (file.endsWith('.pb')) return 'binary';
  return /\.(pb_text|textproto)$/.test(file) ? 'text' : undefined;
}

type PlaceOf = (field: string, index: number) => Pick<Problem, 'line' | 'column'>;

/** A binary file has no lines. */
const NOWHERE: PlaceOf = () => ({ line: 0, column: 0 });

/** @param text for the binary form, the bytes, one per character */
export function parseEncodedFile(
  text: string,
  file: string,
  form: EncodedForm,
): ResourceFileResult {
  if (form === 'binary') return readResponse(Buffer.from(text, 'latin1'), file, NOWHERE);
  const parsed = parseTextFormat(text, RESPONSE);
  if (parsed.ok) return readResponse(parsed.bytes, file, parsed.placeOf);
  const { message, line, column } = parsed;
  return { ok: false, problems: [{ file, line, column, field: '', message }], resources: [] };
}

function readResponse(bytes: Uint8Array, file: string, placeOf: PlaceOf): ResourceFileResult {
  const decoded = decodeSotwResponse(bytes, Infinity);
  if (!decoded.ok) {
    const message = `is not a DiscoveryResponse: ${decoded.reason}`;
    const remedy = 'write an encoded envoy.service.discovery.v3.DiscoveryResponse';
    return {
      ok: false,
      problems: [{ file, ...placeOf('', 0), field: '', message, remedy }],
      resources: [],
    };
  }
  const { typeUrl, resources } = decoded.message;
  const problems: Problem[] = [];
  const read: FileResource[] = [];
  const seen = new Set<string>();
  for (const [index, resource] of resources.entries()) {
    const { name, body } = resource;
    const wrong = mistakeIn(resource, typeUrl, seen);
    if (wrong) {
      const field = `resources[${index}]`;
      problems.push({ file, ...placeOf('resources', index), field, ...wrong });
    } else if (body) read.push({ name, typeUrl: resource.typeUrl, body });
  }
  return problems.length > 0
    ? { ok: false, problems: sortProblems(problems), resources: [] }
    : { ok: true, resources: read };
}

function mistakeIn(
  { name, typeUrl, body }: WireResource,
  wanted: string,
  seen: Set<string>,
): Pick<Problem, 'message' | 'remedy'> | undefined {
  const shortType = shortTypeOf(typeUrl);
  if (!body) return { message: 'has no resource' };
  if (wanted !== '' && typeUrl !== wanted) {
    const remedy = 'correct type_url, or write a file for each type';
    return { message: `is a ${shortType}, and type_url is ${wanted}`, remedy };
  }
  if (name === '') {
    const remedy = 'put it into an envoy.service.discovery.v3.Resource with a name';
    return { message: `this ${shortType} has no name`, remedy };
  }
  const key = `${typeUrl} ${name}`;
  if (seen.has(key)) return { message: `duplicate ${shortType} ${JSON.stringify(name)}` };
  seen.add(key);
  return undefined;
}
