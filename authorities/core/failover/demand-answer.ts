/** The answer of the candidate in use for a demand, without content: complete, absent, unavailable, or none yet. Pure. */
import type { Candidate } from './candidate.js';
import { statusAt, type Asked } from './candidate-content.js';
import type { Demand, InUse } from './demand.js';
import type { Absence, NameEvent } from './resource-events.js';

/**
 * @param isHeld the group serves the name, or for a glob any member
 * @returns undefined: the candidate has not answered yet, or its content is the answer
 */
export function answerOf(
  { index, candidate }: InUse,
  demand: Demand,
  isHeld: boolean,
): NameEvent | undefined {
  const { typeUrl, name } = demand;
  const { source, mapping } = candidate;
  const status = statusAt(candidate, demand);
  if (status === undefined || status === 'requested') {
    // What an earlier process held is all that can be had, and proves nothing about the rest.
    const isRestored = demand.restored === 'whole' && !source.facts().live;
    return isRestored && isHeld
      ? { kind: 'complete', typeUrl, name, isProof: false, status: undefined }
      : undefined;
  }
  const absence = absenceOf(candidate, demand);
  if (status === 'present') {
    if (!name.isGlob || isIncomplete(candidate, demand)) return undefined;
    // An alternative without members cannot prove that the primary's collection is empty.
    if (index !== 0 && !isHeld) return { kind: 'unavailable', typeUrl, name, status: undefined };
    const isProof = index === 0 && source.contents.isWhole(typeUrl, mapping.toSource(name));
    return { kind: 'complete', isProof, ...absence };
  }
  // A state-of-the-world server may be silent about an empty collection. A former member may still be held, because
  // its name is subscribed too (seed 135963). About listeners and clusters no server is silent: it sends an empty set.
  const mayBeSilent = status === 'timed_out' && !source.contents.answersWholly(typeUrl);
  if (isHeld && name.isGlob && mayBeSilent) {
    return { kind: 'complete', isProof: false, ...absence };
  }
  // The deletion guard or `ignore_deletion` may keep an absent resource.
  if (isHeld) return undefined;
  if (status === 'timed_out') return { kind: 'unavailable', ...absence };
  if (index === 0) return { kind: 'absent', ...absence };
  return { kind: 'unavailable', typeUrl, name, status: undefined };
}

/** The reason of the candidate why a name is absent, if it sent one. */
export function absenceOf(
  { source: { contents }, mapping }: Candidate,
  { typeUrl, name }: Asked,
): Absence {
  const status = contents.subscription(typeUrl, mapping.toSource(name))?.absence;
  return { typeUrl, name, status };
}

/** Further members of this collection may come. */
export const isIncomplete = (candidate: Candidate, demand: Demand): boolean =>
  demand.name.isGlob && !demand.isWhole && mayAddMembers(candidate, demand);

export const mayAddMembers = ({ source, mapping }: Candidate, { typeUrl, name }: Asked): boolean =>
  source.answersInParts(typeUrl, mapping.toSource(name));
