/** The monotonic clock of the process, in milliseconds: jumps of the wall clock affect no timer. */
export const clock = (): number => performance.now();

/** For display: converts a time of `clock` to ISO 8601. */
export function wallTime(atMs: number): string {
  return new Date(Date.now() - (performance.now() - atMs)).toISOString();
}
