/**
 * Ranges of IP addresses in CIDR notation (RFC 4632, RFC 4291). An IPv4-mapped IPv6 address is the IPv4
 * address: a listener on `::` sees IPv4 clients under it.
 */

/** The first `prefixBits` bits of an address: 4 bytes for IPv4, 16 for IPv6. */
export interface AddressRange {
  readonly bytes: readonly number[];
  readonly prefixBits: number;
}

/** @returns undefined for any text but `10.0.0.0/8`, `fd00::/8`, or a single address */
export function parseAddressRange(text: string): AddressRange | undefined {
  const [address = '', bits, more] = text.split('/');
  const bytes = addressBytes(address);
  if (bytes === undefined || more !== undefined) return undefined;
  const most = bytes.length * 8;
  if (bits === undefined) return { bytes, prefixBits: most };
  if (!/^\d{1,3}$/.test(bits) || Number(bits) > most) return undefined;
  return { bytes, prefixBits: Number(bits) };
}

/** Whether every bit after the prefix is zero. `10.0.0.1/8` is probably a mistake. */
export function hasNoHostBits({ bytes, prefixBits }: AddressRange): boolean {
  return bytes.every((byte, index) => (byte & ~maskOf(prefixBits - index * 8) & 0xff) === 0);
}

/** @param address as Node writes it; false for any other text */
export function isInRange(address: string, { bytes, prefixBits }: AddressRange): boolean {
  const own = addressBytes(address);
  if (own?.length !== bytes.length) return false;
  return bytes.every((byte, index) => {
    const mask = maskOf(prefixBits - index * 8);
    return ((own[index] ?? 0) & mask) === (byte & mask);
  });
}

/** Whether every address of `inner` is in `outer`. */
export function contains(outer: AddressRange, inner: AddressRange): boolean {
  if (outer.bytes.length !== inner.bytes.length || outer.prefixBits > inner.prefixBits)
    return false;
  return outer.bytes.every((byte, index) => {
    const mask = maskOf(outer.prefixBits - index * 8);
    return ((inner.bytes[index] ?? 0) & mask) === (byte & mask);
  });
}

/** @param bits of the prefix from this byte on. @returns the mask of the bits that it covers here */
function maskOf(bits: number): number {
  if (bits >= 8) return 0xff;
  return bits <= 0 ? 0 : (0xff << (8 - bits)) & 0xff;
}

const MAPPED = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

function addressBytes(text: string): readonly number[] | undefined {
  if (!text.includes(':')) return ipv4Bytes(text);
  // The zone (`fe80::1%eth0`) names an interface of this host.
  const bytes = ipv6Bytes(text.replace(/%.*$/s, ''));
  const isMapped = bytes !== undefined && MAPPED.every((byte, index) => bytes[index] === byte);
  return isMapped ? bytes.slice(MAPPED.length) : bytes;
}

function ipv4Bytes(text: string): readonly number[] | undefined {
  const parts = text.split('.');
  const bytes = parts.map(Number);
  const isAddress =
    parts.length === 4 &&
    parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256);
  return isAddress ? bytes : undefined;
}

function ipv6Bytes(text: string): readonly number[] | undefined {
  const [head = '', tail, more] = text.split('::');
  if (more !== undefined) return undefined;
  const before = groupsBytes(head);
  const after = groupsBytes(tail ?? '');
  if (before === undefined || after === undefined) return undefined;
  const missing = 16 - before.length - after.length;
  if (tail === undefined ? missing !== 0 : missing < 2) return undefined;
  return [...before, ...new Array<number>(missing).fill(0), ...after];
}

/** Groups of four hexadecimal digits; the last one may be an IPv4 address. */
function groupsBytes(text: string): readonly number[] | undefined {
  if (text === '') return [];
  const groups = text.split(':');
  const bytes: number[] = [];
  for (const [index, group] of groups.entries()) {
    const dotted = index === groups.length - 1 ? ipv4Bytes(group) : undefined;
    if (dotted !== undefined) bytes.push(...dotted);
    else if (/^[0-9a-fA-F]{1,4}$/.test(group)) {
      const value = Number.parseInt(group, 16);
      bytes.push(value >> 8, value & 0xff);
    } else return undefined;
  }
  return bytes;
}
