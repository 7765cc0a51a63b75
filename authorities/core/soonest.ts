/** @returns the soonest of these times; undefined: none is set. Infinity counts as not set. */
export function soonestOf(...atMs: readonly (number | undefined)[]): number | undefined {
  let soonestMs = Infinity;
  for (const one of atMs) if (one !== undefined && one < soonestMs) soonestMs = one;
  return soonestMs === Infinity ? undefined : soonestMs;
}
