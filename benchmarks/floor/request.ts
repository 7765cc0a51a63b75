/** `resource_names_subscribe` in delta and `resource_names` in state of the world. */
const NAMES_FIELD = 3;

/** Reads only the names of a request. */
export function readRequest(bytes: Buffer): readonly string[] {
  const names: string[] = [];
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at]!;
      at += 1;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    if ((tag & 7) !== 2) {
      varint();
      continue;
    }
    const length = varint();
    if (tag >>> 3 === NAMES_FIELD) names.push(bytes.toString('utf8', at, at + length));
    at += length;
  }
  return names;
}
