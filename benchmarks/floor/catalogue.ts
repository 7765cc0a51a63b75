/**
 * The same resources as benchmarks/peers/internal/catalogue, encoded by hand:
 * ClusterLoadAssignments of about 1 KiB with a marker (time, number and origin of the change) as
 * the locality's zone.
 */

const RESOURCE_TYPE = 'envoy.config.endpoint.v3.ClusterLoadAssignment';
export const TYPE_URL = `type.googleapis.com/${RESOURCE_TYPE}`;
const ENDPOINTS_EACH = 32;

export function resourceName(authority: string, index: number): string {
  return `xdstp://${authority}/${RESOURCE_TYPE}/all/r${String(index).padStart(6, '0')}`;
}

/** The number at the end of a name; -1 when there is none. */
export function resourceIndex(name: string): number {
  const digits = /r(\d{6})$/.exec(name)?.[1];
  return digits === undefined ? -1 : Number(digits);
}

/** The marker of the initial content, before any change. */
export const FIRST_MARKER = `@@${'0'.repeat(16)}${'0'.repeat(8)}A`;

/** A length-delimited field. */
export function bytesField(number: number, value: Buffer): Buffer {
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

/** One `DeltaDiscoveryResponse.resources` field with its tag, without a version. */
export function resourceField(name: string, marker: string): Buffer {
  const locality = bytesField(1, textField(2, marker));
  const body = Buffer.concat([
    textField(1, name),
    bytesField(2, Buffer.concat([locality, ENDPOINTS])),
  ]);
  const any = Buffer.concat([textField(1, TYPE_URL), bytesField(2, body)]);
  return bytesField(2, Buffer.concat([bytesField(2, any), textField(3, name)]));
}

const TYPE_FIELD = textField(4, TYPE_URL);

/** A complete response: prepared resources, the type, and a nonce. */
export function response(fields: readonly Buffer[], nonce: number): Buffer {
  return Buffer.concat([...fields, TYPE_FIELD, textField(5, String(nonce))]);
}
