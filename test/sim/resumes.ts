/** What a client tells, on a new stream, of what it held before. */
import type { Random } from './random.js';

/**
 * `full`: what it was told. `none`: nothing. `some`: a part of it (delta). `foreign`: versions that no
 * instance gave, as of another server of the same content. `unsaid`: nothing, though it goes on with what
 * it has, as a state-of-the-world client does that refused its first response.
 */
export type Resume = 'full' | 'none' | 'some' | 'foreign' | 'unsaid';

export const RESUMES: readonly Resume[] = ['full', 'full', 'none', 'some', 'foreign', 'unsaid'];

/** @returns the versions that a delta client tells of what it holds, and may tell. */
export function toldVersions(
  held: readonly (readonly [string, { readonly version: string }])[],
  resume: Resume,
  dice: Random,
): ReadonlyMap<string, string> {
  const isTold = (): boolean => {
    if (resume === 'some') return dice.chance(0.5);
    return resume === 'full' || resume === 'foreign';
  };
  const told = held.filter(isTold);
  return new Map(
    told.map(([name, { version }]) => [
      name,
      resume === 'foreign' ? `elsewhere ${version}` : version,
    ]),
  );
}
