/** One monotonic clock for the process, in milliseconds; wall-clock jumps change no timer. */
export const clock = (): number => performance.now();

/** For people: the time of day of an instant of that clock. */
export function wallTime(atMs: number): string {
  return new Date(Date.now() - (performance.now() - atMs)).toISOString();
}
