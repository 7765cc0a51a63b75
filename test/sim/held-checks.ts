/** Rules for everything that a client holds, in both protocol variants. */
import type { Held, ModelClient } from './model-client.js';
import { isBare, isGlob, isList, isPayload, lacksEndpoints, partsOf } from './names.js';
import { isAllowed } from './rights.js';
import type { Publication } from './history.js';
import { Violation, type Oracle, type Way } from './oracle.js';
import type { Scene } from './scene.js';

/** Name of an instance: that of its process without the incarnation. */
export const instanceOf = (process: string): string => process.slice(0, process.indexOf('.'));

/** A process never sends older content of a source than it sent before. */
export function checkNotOlder(
  name: string,
  now: readonly Publication[],
  before: Held | undefined,
  process: string,
): void {
  if (before?.process !== process) return;
  const [one, ...others] = now;
  const [held, ...otherHeld] = before.publications;
  if (!one || !held || others.length + otherHeld.length > 0) return;
  if (one.source === held.source && one.name === held.name && one.order < held.order) {
    throw new Violation('1', `${name} goes back to older content of ${one.source}`);
  }
}

/**
 * A source that has just started does not know its endpoints yet, for less time than the deletion guard holds.
 *
 * @param sinceMs the client holds what it was sent since then without a gap
 */
export function checkKeepsEndpoints(
  oracle: Oracle,
  name: string,
  now: Pick<Held, 'body' | 'publications' | 'process' | 'sentMs'>,
  before: Held | undefined,
  sinceMs: number,
): void {
  const { typeUrl } = partsOf(name);
  if (!isBare(typeUrl, now.body) || before?.process !== now.process || before.sentMs < sinceMs)
    return;
  const [held] = before.publications;
  if (!held || isBare(typeUrl, before.body) || lacksEndpoints(typeUrl, held.mark)) return;
  if (!now.publications.some(({ source }) => source === held.source)) return;
  if (!oracle.history.isBareAt(held.source, now.sentMs)) return;
  // A new map may have new groups.
  if (oracle.mapChangedSince(before.sentMs)) return;
  // The gateway may take for unchanged what a source sends later, or lacks without saying so.
  if (oracle.splits(held.source) || oracle.hidesAbsence(held)) return;
  // A redirect, or a removal that the client is not told any more, comes in between.
  const gone = {
    sinceMs: held.atMs,
    cameFrom: [held.source],
    process: now.process,
    isClaimed: true,
  };
  if (oracle.mayBeRedirected(name) || oracle.mayBeGone(name, gone)) return;
  throw new Violation('3', `${name} loses its endpoints to a source that has just started`);
}

/** Since when it may be gone. Another process may know less than the one that sent the content. */
export const sinceOf = (held: Held, process: string): number =>
  held.process === process ? Math.min(...held.publications.map((one) => one.atMs)) : 0;

/** The process that sent a removal, and when. */
export interface RemovalAt {
  readonly process: string;
  readonly sentMs: number;
  /** Does the process know that the client may hold it? */
  readonly isClaimed: boolean;
}

/** A removal needs a reason. */
export function checkRemoved(
  oracle: Oracle,
  name: string,
  held: Held,
  { process, sentMs, isClaimed }: RemovalAt,
): void {
  const cameFrom = held.process === process ? held.publications.map(({ source }) => source) : [];
  const sinceMs = sinceOf(held, process);
  if (oracle.mayBeGone(name, { sinceMs, cameFrom, process, isClaimed })) return;
  // A resource with a TTL expires without a removal by its source.
  if (oracle.ends?.mayHaveEnded(process, name, sinceMs, sentMs) === true) return;
  throw new Violation('3', `${name} is removed without a reason`);
}

/** What a client must hold of a type. */
export function expectedOf(
  { oracle, map }: Scene,
  client: ModelClient,
  typeUrl: string,
): ReadonlyMap<string, Way | 'nothing' | 'unsure'> {
  const expected = new Map<string, Way | 'nothing' | 'unsure'>();
  const list = client.listOf(typeUrl);
  const listed = list === undefined ? undefined : oracle.listed(list);
  if (listed !== 'unsure') for (const [name, truth] of listed ?? []) expected.set(name, truth);
  for (const asked of client.type(typeUrl).subscribed) {
    if (isList(asked)) continue;
    for (const name of isGlob(asked) ? oracle.members(asked) : [asked]) {
      // A name may be denied as a member of a glob, and allowed by itself.
      const isGranted = isAllowed(map, client.spec.name, asked);
      if (isGranted) expected.set(name, oracle.truth(name));
      else if (!expected.has(name)) expected.set(name, 'nothing');
    }
  }
  return expected;
}

export function checkHeld(
  client: ModelClient,
  name: string,
  held: Held | undefined,
  { publication, reference }: Way,
): void {
  if (!held) throw wrong(client, name, 'lacks it');
  if (!held.publications.some(({ mark }) => mark === publication.mark)) {
    const mark = held.publications[0]?.mark ?? 0;
    throw wrong(client, name, `holds #${mark}, not #${publication.mark}`);
  }
  const { typeUrl } = partsOf(name);
  if (isBare(typeUrl, held.body)) throw wrong(client, name, 'lacks its endpoints');
  if (!isPayload(held.body, typeUrl, name, reference)) {
    throw wrong(client, name, 'holds it with other names in it');
  }
}

export const wrong = ({ spec }: ModelClient, name: string, what: string): Violation =>
  new Violation('2', `${spec.name} ${what}: ${name}`);
