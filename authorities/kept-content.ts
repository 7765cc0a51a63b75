/** The form of one resource on disk: a digest of the rest, the size of the header, the header as JSON, and the body. */
import { hash } from 'node:crypto';
import { readConstraints } from '../protos/parameter-constraints.js';
import { bodyOf } from '../protos/resource-field.js';
import {
  formatResourceLocator,
  nameOfKey,
  parseResourceLocator,
  type ResourceLocator,
} from '../protos/resource-name.js';
import { readResource, type Projection } from './core/projection.js';

export interface KeptContent {
  readonly projection: Projection;
  /** Which source sent it. */
  readonly source: string;
  /** The number of the process that last had it from the source. */
  readonly run: number;
}

export interface Header {
  readonly run: number;
  readonly source: string;
  readonly typeUrl: string;
  readonly key: string;
  readonly version: string;
  readonly alternatives?: readonly string[];
  /** TP2, encoded, in base64. */
  readonly constraints?: string;
}

const DIGEST_BYTES = 32;
const HEADER_AT = DIGEST_BYTES + 4;

export function encodeContent({ projection, source, run }: KeptContent): Buffer {
  const { typeUrl, name, version, alternatives, field, constraints } = projection;
  const header: Header = {
    run,
    source,
    typeUrl,
    key: name.key,
    version,
    ...(alternatives && { alternatives: alternatives.map(formatResourceLocator) }),
    ...(constraints && { constraints: Buffer.from(constraints.bytes).toString('base64') }),
  };
  const headerBytes = Buffer.from(JSON.stringify(header));
  const size = Buffer.alloc(4);
  size.writeUInt32BE(headerBytes.length);
  const rest = Buffer.concat([size, headerBytes, bodyOf(field)]);
  return Buffer.concat([digestOf(rest), rest]);
}

/** @returns undefined: it cannot be read. The digest is not checked */
export function headerOf(bytes: Buffer): Header | undefined {
  try {
    return JSON.parse(bytes.toString('utf8', HEADER_AT, bodyAtOf(bytes))) as Header;
  } catch {
    return undefined;
  }
}

const bodyAtOf = (bytes: Buffer): number => HEADER_AT + bytes.readUInt32BE(DIGEST_BYTES);

/** @returns undefined: it is damaged, or written by a gateway that reads content in another way */
export function decodeContent(bytes: Buffer): KeptContent | undefined {
  const rest = bytes.subarray(DIGEST_BYTES);
  const header = headerOf(bytes);
  if (!header || !digestOf(rest).equals(bytes.subarray(0, DIGEST_BYTES))) return undefined;
  const { run, source, typeUrl, key, version, alternatives = [] } = header;
  const name = nameOfKey(key);
  if (!name) return undefined;
  const constraints = readConstraints(Buffer.from(header.constraints ?? '', 'base64'));
  if (typeof constraints === 'string') return undefined;
  const body = bytes.subarray(bodyAtOf(bytes));
  const read = readResource(name, typeUrl, typeUrl, body, undefined, constraints);
  if (!read.ok || read.projection.version !== version) return undefined;
  const locators = alternatives.flatMap((text): readonly ResourceLocator[] => {
    const parsed = parseResourceLocator(text);
    return parsed.ok ? [parsed.value] : [];
  });
  const more = locators.length > 0 ? { alternatives: locators } : {};
  return { run, source, projection: { ...read.projection, ...more } };
}

const digestOf = (bytes: Uint8Array): Buffer => Buffer.from(hash('sha256', bytes, 'hex'), 'hex');
