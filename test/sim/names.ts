/**
 * Names and payloads, written and read without the code under test. Every content ends in a unique
 * mark from which the oracle knows its source and time.
 */
import { TYPE_URL, TYPE_URL_PREFIX } from '../../protos/type-urls.js';

export const CDS = TYPE_URL.cluster;
export const EDS = TYPE_URL.clusterLoadAssignment;
export const LDS = TYPE_URL.listener;
export const RDS = TYPE_URL.routeConfiguration;
export const REDIRECT = TYPE_URL.resourceLocator;
/** In push order. */
export const TYPES: readonly string[] = [CDS, EDS, LDS, RDS];

export const rankOf = (typeUrl: string): number => TYPES.indexOf(typeUrl);

export interface NameParts {
  readonly text: string;
  readonly authority: string;
  readonly typeUrl: string;
  readonly id: string;
  readonly isGlob: boolean;
  /** The glob that contains the name, or the glob itself. */
  readonly glob: string;
  /** The list that contains it as an inline entry, by its own name or by `#entry=`. */
  readonly entryOf: string | undefined;
}

/**
 * Old-style names of a node are written here with the authority `old:<node>`, so that each has a
 * text of its own: `old://<node>/<type>/<id>`. On the wire only the id is used.
 */
const OLD = 'old:';
export const oldAuthority = (node: string): string => OLD + node;
export const isOldAuthority = (authority: string): boolean => authority.startsWith(OLD);

export function nameText(authority: string, typeUrl: string, id: string): string {
  const type = typeUrl.slice(TYPE_URL_PREFIX.length);
  if (!isOldAuthority(authority)) return `xdstp://${authority}/${type}/${id}`;
  return `old://${authority.slice(OLD.length)}/${type}/${id}`;
}

export const wireName = (text: string): string => (isOldAuthority(text) ? partsOf(text).id : text);

const known = new Map<string, NameParts>();
/** A list, and the name of one of its entries. */
const ENTRY = /^([^#]+)#entry=(.+)$/;
/** The id of an inline entry. */
const INLINE = /^l\d\/i\d$/;

/**
 * @param node of the sender; undefined: it has no old-style names
 * @returns the string instance that is used for this name everywhere, which makes lookups faster.
 */
export function nameOfWire(wire: string, typeUrl: string, node: string | undefined): string {
  const isPlain = node === undefined || wire.startsWith('xdstp:');
  const text = isPlain ? wire : nameText(oldAuthority(node), typeUrl, wire);
  return known.get(text)?.text ?? text;
}

/**
 * A name with `#entry=` has the parts of the entry itself: its type and id.
 *
 * @throws on anything but such a name or a plain one: the simulation uses no others where it reads one.
 */
export function partsOf(text: string): NameParts {
  const seen = known.get(text);
  if (seen) return seen;
  const entry = ENTRY.exec(text);
  if (entry) {
    const [, list = '', name = ''] = entry;
    const parts = { ...partsOf(inlineText(list, name)), text };
    known.set(text, parts);
    return parts;
  }
  const match = /^(xdstp|old):\/\/([^/]*)\/([^/]+)\/([^?#]+)$/.exec(text);
  if (!match) throw new Error(`no name: ${text}`);
  const [, scheme, host = '', type = '', id = ''] = match;
  const authority = scheme === 'old' ? oldAuthority(host) : host;
  // A wildcard contains every name of its type.
  const directory = id.slice(0, scheme === 'old' ? 0 : id.lastIndexOf('/') + 1);
  const parts: NameParts = {
    text,
    authority,
    typeUrl: TYPE_URL_PREFIX + type,
    id,
    isGlob: id === '*' || id.endsWith('/*'),
    glob: `${text.slice(0, text.length - id.length)}${directory}*`,
    entryOf: INLINE.test(id)
      ? listText(authority, TYPE_URL_PREFIX + type, id.slice(0, id.indexOf('/')))
      : undefined,
  };
  known.set(text, parts);
  return parts;
}

export const authorityOf = (text: string): string => partsOf(text).authority;
export const globOf = (text: string): string => partsOf(text).glob;
export const isGlob = (text: string): boolean => text.endsWith('/*');

// ---- lists ----------------------------------------------------------------------------------

const LIST = 'Collection';

export const listText = (authority: string, typeUrl: string, id: string): string =>
  nameText(authority, typeUrl + LIST, id);

/** Is this the name of a list? */
export const isList = (text: string): boolean => partsOf(text).typeUrl.endsWith(LIST);

/** An inline entry of a list, in the directory that has the name of the list (docs/RESOLUTION.md). */
export function inlineText(list: string, entry: string): string {
  const { authority, typeUrl, id } = partsOf(list);
  return nameText(authority, typeUrl.slice(0, -LIST.length), `${id}/${entry}`);
}

/** The same name for an entry that is requested with `#entry=`. */
export function inlineOf(entry: string): string {
  const { authority, typeUrl, id } = partsOf(entry);
  return nameText(authority, typeUrl, id);
}

/** The same entry as a client requests it by itself, without the rest of the list (TP1, `entry`). */
export const entryText = (list: string, entry: string): string => `${list}#entry=${entry}`;

/** Is this name requested through a list only? */
export const isListed = (text: string): boolean => {
  const { id, entryOf } = partsOf(text);
  return id.startsWith('m/') || (entryOf !== undefined && !text.includes('#'));
};

// ---- payloads -------------------------------------------------------------------------------

const MARK_BYTES = 10;
const NOTHING = Buffer.alloc(0);
/** Field 1000, which is in no table of names. */
const MARK_HEAD = Buffer.from([0xc2, 0x3e, MARK_BYTES]);

function varint(value: number): readonly number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];
}

export function lengthDelimited(field: number, value: Buffer): Buffer {
  const head = [...varint((field << 3) | 2), ...varint(value.length)];
  return Buffer.concat([Buffer.from(head), value]);
}

/** `type: EDS` */
const EDS_CLUSTER = Buffer.from([0x10, 3]);

/** `endpoints` of an assignment: a locality with one endpoint. */
const LOCALITY = Buffer.from([0x12, 2, 0x12, 0]);

/** By name and reference. */
const heads = new Map<string, Map<string, Buffer>>();

/** Name and reference, for the types that have one: a cluster's assignment, a route's cluster. */
function headOf(typeUrl: string, name: string, reference: string): Buffer {
  let ofName = heads.get(name);
  if (!ofName) heads.set(name, (ofName = new Map<string, Buffer>()));
  const made = ofName.get(reference);
  if (made) return made;
  const own = lengthDelimited(1, Buffer.from(wireName(name)));
  const referred = Buffer.from(wireName(reference));
  const rest =
    typeUrl === CDS
      ? Buffer.concat([EDS_CLUSTER, lengthDelimited(3, lengthDelimited(2, referred))])
      : typeUrl === RDS
        ? [1, 2, 3, 2].reduce<Buffer>((inner, field) => lengthDelimited(field, inner), referred)
        : Buffer.alloc(0);
  const head = Buffer.concat([own, rest, MARK_HEAD]);
  ofName.set(reference, head);
  return head;
}

/** The marks of assignments without endpoints are multiples of this: one of four, or all in worlds without endpoints. */
export const BARE_MARKS = 4;

/** Was it published without endpoints? */
export const lacksEndpoints = (typeUrl: string, mark: number): boolean =>
  typeUrl === EDS && mark % BARE_MARKS === 0;

const localitiesOf = (typeUrl: string, mark: number): Buffer =>
  typeUrl === EDS && !lacksEndpoints(typeUrl, mark) ? LOCALITY : NOTHING;

/** The same assignment before its source knows the endpoints. */
export const withoutEndpoints = (body: Buffer): Buffer =>
  body.indexOf(LOCALITY) === 0 ? body.subarray(LOCALITY.length) : body;

/** Has the assignment lost the endpoints that it was published with? */
export function isBare(typeUrl: string, body: Uint8Array): boolean {
  const localities = localitiesOf(typeUrl, markOf(body) ?? 0);
  return localities.compare(body, 0, localities.length) !== 0;
}

export function payload(typeUrl: string, name: string, reference: string, mark: number): Buffer {
  const head = headOf(typeUrl, name, reference);
  const digits = Buffer.from(String(mark).padStart(MARK_BYTES, '0'));
  return Buffer.concat([localitiesOf(typeUrl, mark), head, digits]);
}

/** @returns the mark at the end, or undefined if there is none. */
export function markOf(body: Uint8Array): number | undefined {
  const text = Buffer.from(body.buffer, body.byteOffset, body.length)
    .subarray(-MARK_BYTES)
    .toString('latin1');
  return /^\d{10}$/.test(text) ? Number(text) : undefined;
}

/** Is this the payload with this mark, name and reference? It may be bare. */
export function isPayload(
  body: Uint8Array,
  typeUrl: string,
  name: string,
  reference: string,
): boolean {
  const localities = isBare(typeUrl, body) ? NOTHING : localitiesOf(typeUrl, markOf(body) ?? 0);
  const head = Buffer.concat([localities, headOf(typeUrl, name, reference)]);
  return body.length === head.length + MARK_BYTES && head.compare(body, 0, head.length) === 0;
}

/** A redirect, written as TP1 defines it. */
export const redirectTo = (target: string): Buffer => lengthDelimited(1, Buffer.from(target));
