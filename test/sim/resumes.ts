/** What a client claims to hold on a new stream. */
import type { Random } from './random.js';

/**
 * `full`: what it received. `none`: nothing. `some`: a part of it (delta). `foreign`: versions that
 * no instance gave, like those of another server with the same content. `unsaid`: nothing, though
 * it keeps its resources, like a state-of-the-world client that refused its first response.
 */
export type Resume = 'full' | 'none' | 'some' | 'foreign' | 'unsaid';

export const RESUMES: readonly Resume[] = ['full', 'full', 'none', 'some', 'foreign', 'unsaid'];

/** Did a gateway give this version to endpoints of a client that has clusters? Other servers' versions may have dots too. */
export const hasClusterMark = (version: string): boolean => /^[\w-]{22}\+?\.[\w-]+$/.test(version);

/** @returns the versions that a delta client sends for the resources that it may mention. */
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
