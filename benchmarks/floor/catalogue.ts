/**
 * The same resources as benchmarks/peers/internal/catalogue, encoded by hand:
 * ClusterLoadAssignments of about 1 KiB with a marker (time, number and origin of the change) as
 * the locality's zone.
 */

const RESOURCE_TYPE = 'envoy.config.endpoint.v3.ClusterLoadAssignment';
const TYPE_URL = `type.googleapis.com/${RESOURCE_TYPE}`;
const ENDPOINTS_EACH = 32;

/** How the resources are named and sent. */
export interface Catalogue {
  readonly authority: string;
  /** The same names without `xdstp://`. */
  readonly oldStyle: boolean;
  /** State of the world instead of delta. */
  readonly sotw: boolean;
}

function resourceName({ authority, oldStyle }: Catalogue, index: number): string {
  const number = String(index).padStart(6, '0');
  return `${oldStyle ? '' : 'xdstp://'}${authority}/${RESOURCE_TYPE}/all/r${number}`;
}

/** The number at the end of a name; -1 when there is none. */
export function resourceIndex(name: string): number {
  const digits = /r(\d{6})$/.exec(name)?.[1];
  return digits === undefined ? -1 : Number(digits);
}

/** The marker of the initial content, before any change. */
const FIRST_MARKER = `@@${'0'.repeat(16)}${'0'.repeat(8)}A`;

/** A length-delimited field. */
function bytesField(number: number, value: Buffer): Buffer {
  const head: number[] = [(number << 3) | 2];
  let length = value.length;
  while (length > 0x7f) {
    head.push((length & 0x7f) | 0x80);
    length >>>= 7;
  }
  head.push(length);
  return Buffer.concat([Buffer.from(head), value]);
}

const textField = (number: number, value: string): Buffer =>
  bytesField(number, Buffer.from(value, 'utf8'));

const PORT_8080 = Buffer.from([(3 << 3) | 0, 0x90, 0x3f]);

/** The endpoints are the same in all resources. */
const ENDPOINTS = Buffer.concat(
  Array.from({ length: ENDPOINTS_EACH }, (_, i) => {
    const socketAddress = Buffer.concat([textField(2, `10.0.0.${10 + i}`), PORT_8080]);
    return bytesField(2, bytesField(1, bytesField(1, bytesField(1, socketAddress))));
  }),
);

/**
 * One `resources` field of a response with its tag: a Resource without a version in delta, an Any in
 * state of the world.
 */
export function resourceField(catalogue: Catalogue, index: number, marker = FIRST_MARKER): Buffer {
  const name = resourceName(catalogue, index);
  const locality = bytesField(1, textField(2, marker));
  const body = Buffer.concat([
    textField(1, name),
    bytesField(2, Buffer.concat([locality, ENDPOINTS])),
  ]);
  const any = Buffer.concat([textField(1, TYPE_URL), bytesField(2, body)]);
  if (catalogue.sotw) return bytesField(2, any);
  return bytesField(2, Buffer.concat([bytesField(2, any), textField(3, name)]));
}

const TYPE_FIELD = textField(4, TYPE_URL);
const SOTW_VERSION = textField(1, '1');

/** A complete response in pieces: prepared resources, the type, and a nonce. */
export function responsePieces(
  { sotw }: Catalogue,
  fields: readonly Buffer[],
  nonce: number,
): readonly Buffer[] {
  const tail = [TYPE_FIELD, textField(5, String(nonce))];
  return sotw ? [SOTW_VERSION, ...fields, ...tail] : [...fields, ...tail];
}
