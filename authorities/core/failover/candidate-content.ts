/** What one candidate of a group holds and has answered, in the names of the group. */
import type { ResourceName } from '../../../protos/resource-name.js';
import { reproject, type Projected } from '../projection.js';
import type { SourceEntry, SubscriptionStatus } from '../sources/source-contents.js';
import type { Candidate } from './candidate.js';

/** A name, or a glob, as clients request it. */
export interface Asked {
  readonly typeUrl: string;
  readonly name: ResourceName;
}

/** The state of a demand on the present stream of a candidate. */
export function statusAt(
  { source, mapping }: Candidate,
  { typeUrl, name }: Asked,
): SubscriptionStatus | undefined {
  return source.contents.subscription(typeUrl, mapping.toSource(name))?.status;
}

/** What a candidate has said of a name, for an operator. */
export type CandidateAnswer =
  'sent' | 'rejected' | 'absent' | 'not answered yet' | 'no answer' | 'not requested';

const ANSWERS = {
  present: 'sent',
  absent: 'absent',
  requested: 'not answered yet',
  timed_out: 'no answer',
} as const;

/** `rejected`: the gateway cannot use what the source sent last. An earlier version may be served. */
export function answerAt(
  { source: { contents }, mapping }: Candidate,
  { typeUrl, name }: Asked,
): CandidateAnswer {
  const asked = mapping.toSource(name);
  if (!contents.isWanted(typeUrl, asked)) return 'not requested';
  if (contents.isRejected(typeUrl, asked)) return 'rejected';
  // A glob without members has its answer, too.
  const status = asked.isGlob && contents.subscription(typeUrl, asked)?.status;
  return ANSWERS[status || contents.answerFor(typeUrl, asked)];
}

/** The resource of a name, or the members of a glob, under the names of the source. */
export function* entriesOf(
  { source, mapping }: Candidate,
  { typeUrl, name }: Asked,
): IterableIterator<SourceEntry> {
  const asked = mapping.toSource(name);
  if (asked.isGlob) {
    yield* source.contents.members(typeUrl, asked);
    return;
  }
  const entry = source.contents.entry(typeUrl, asked);
  if (entry) yield entry;
}

/** Does the candidate hold it now? It may have deleted a resource that was served from it. */
export const isHeldBy = ({ source, mapping }: Candidate, { typeUrl, name }: Asked): boolean =>
  source.contents.entry(typeUrl, mapping.toSource(name)) !== undefined;

/** What clients receive under `name` if the group serves this entry of the candidate. */
export function projectedAs(
  { mapping }: Candidate,
  name: ResourceName,
  { projection }: SourceEntry,
): Projected {
  const asItIs = mapping.identity || name.key === projection.name.key;
  return asItIs ? { ok: true, projection } : reproject(projection, name, mapping.toReference);
}
