/** Versions of Node.js in which a client or a source that breaks the rules of HTTP/2 may end the process. */

const RECOMMENDED = '24.18.1';

/**
 * By line of releases: the first one that has nghttp2 1.69 (CVE-2026-27135) and does not send while it receives
 * (CVE-2026-56848). Lines that are not here and older than the last one never got both.
 */
const FIRST_SAFE: ReadonlyMap<number, string> = new Map([
  [22, '22.23.2'],
  [24, RECOMMENDED],
  [26, '26.5.1'],
]);

/**
 * @param version as in `process.versions.node`
 * @returns the oldest safe version of the same line, or of the recommended one; undefined: `version` is safe
 */
export function saferNode(version: string): string | undefined {
  const [major = 0] = numbersIn(version);
  if (major > Math.max(...FIRST_SAFE.keys())) return undefined;
  const safe = FIRST_SAFE.get(major);
  if (safe === undefined) return RECOMMENDED;
  return isBefore(numbersIn(version), numbersIn(safe)) ? safe : undefined;
}

/** Of a nightly build or a release candidate, the numbers of its release. */
function numbersIn(version: string): readonly number[] {
  return version.split('-', 1).join().split('.').map(Number);
}

function isBefore(version: readonly number[], other: readonly number[]): boolean {
  const at = version.findIndex((number, index) => number !== other[index]);
  return at >= 0 && (version[at] ?? 0) < (other[at] ?? 0);
}
