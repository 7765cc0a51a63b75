/** Distinguishable messages, to detect missing, doubled, torn or reordered ones. */

export const KIB = 1_024;
const LARGE_BYTES = 300 * KIB;

/** @param bytes the approximate size of each; default: all sizes, some of them large */
export function numbered(count: number, bytes?: number): readonly Buffer[] {
  return Array.from({ length: count }, (_, at) => {
    const size = bytes ?? (at % 50 === 7 ? LARGE_BYTES : (at * 37) % 900);
    return Buffer.concat([Buffer.from(`${at} `), Buffer.alloc(size, at % 256)]);
  });
}

export function areSame(one: readonly Buffer[], other: readonly Buffer[]): boolean {
  return one.length === other.length && one.every((bytes, at) => bytes.equals(other[at]!));
}
