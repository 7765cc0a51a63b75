/** What a state-of-the-world client must hold once all faults are healed. */
import { checkHeld, expectedOf, wrong } from './held-checks.js';
import { CDS, partsOf } from './names.js';
import { Violation } from './oracle.js';
import { mayHaveBeenDenied } from './rights.js';
import type { Scene } from './scene.js';
import { isWhole, type SotwClient } from './sotw-client.js';
import { BEFORE_STREAM, type SotwHeld } from './sotw-state.js';
import { mayHaveNoSet, maySendNothing } from './sotw-waits.js';
import { mayWander } from './wanderers.js';

/** @throws Violation */
export function checkSotwExact(scene: Scene, client: SotwClient, typeUrl: string): void {
  const { subscribed, offered, asked, left, covered } = client.type(typeUrl);
  const hasResponse = client.responsesOfStream > 0;
  if (!hasResponse && mayWander(scene, client)) return;
  if (subscribed.size > 0 && !hasResponse && !maySendNothing(scene.oracle, client)) {
    throw new Violation('19', `${client.spec.name} never has a response`);
  }
  if (client.isFull(typeUrl) || mayHaveNoSet(scene.oracle, client, typeUrl)) return;
  // For the other types, the version of a removed name lacks it before it is unsubscribed.
  const isThere = (name: string): boolean =>
    isWhole(typeUrl) ||
    !(
      scene.oracle.mayBeGone(name, { sinceMs: 0 }) ||
      mayHaveBeenDenied(scene.oracle.history.maps, client.spec.name, name)
    );
  // A name that was subscribed again in between may be missing (GRPC 6).
  // The client has no version of a response that it did not accept.
  // On a stream that has nothing to say, what the client left before that stream stays covered (seeds 61888, 62450).
  const isSilent = [...asked.keys()].every((name) => scene.oracle.maySayNothing(name));
  const [kept] =
    [...left].find(
      ([name, leftAt]) =>
        covered.has(name) &&
        isThere(name) &&
        !client.excused.has(name) &&
        !(isSilent && leftAt === BEFORE_STREAM),
    ) ?? [];
  // A version that it does not acknowledge is not in its requests either.
  const isMute = client.spec.acks?.mutedType === typeUrl;
  if (kept !== undefined && asked.size > 0 && !client.hasRefused && !isMute) {
    throw wrong(client, kept, 'left it, and has the version of before');
  }
  const expected = expectedOf(scene, client, typeUrl);
  for (const [name, truth] of expected) {
    const held = offered.get(name);
    if (truth === 'unsure') continue;
    if (truth !== 'nothing' && scene.spec.hasColdRules) checkNamed(client, name, held);
    if (truth === 'nothing') checkNothing(scene, client, name);
    else if (held || !client.excused.has(name)) checkHeld(client, name, held, truth);
  }
  // The other types cannot remove anything (GRPC 10).
  if (!isWhole(typeUrl)) return;
  for (const name of offered.keys()) {
    if (expected.has(name) || scene.oracle.truth(name) === 'unsure') continue;
    throw wrong(client, name, 'holds a resource that does not exist');
  }
}

/**
 * A name in the first request of a stream is answered on this stream, whatever the version (GRPC
 * 6).
 */
function checkNamed(client: SotwClient, name: string, held: SotwHeld | undefined): void {
  if (held === undefined || held.stream === client.stream) return;
  if (!client.type(partsOf(name).typeUrl).named.has(name)) return;
  throw wrong(client, name, 'named it in its first request, and was not sent it');
}

/** For a name that does not exist, a client holds nothing or a placeholder (GRPC 8). */
function checkNothing({ spec }: Scene, client: SotwClient, name: string): void {
  const { typeUrl } = partsOf(name);
  if (!isWhole(typeUrl)) return;
  const { offered, subscribed } = client.type(typeUrl);
  const held = offered.get(name);
  const standsIn = held?.publications.length === 0;
  if (held && !standsIn) throw wrong(client, name, 'holds a resource that does not exist');
  if (held || typeUrl !== CDS || !spec.sotw.placeholders) return;
  if (!subscribed.has(name) || client.hadContent.has(name)) return;
  throw wrong(client, name, 'has nothing that stands in for it');
}
