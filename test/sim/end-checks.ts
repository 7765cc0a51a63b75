/** What must hold once all faults are healed, and once all clients have left. */
import { MOST_DRIFT } from './clocks.js';
import type { ClientLink } from './client-link.js';
import type { Held, ModelClient } from './model-client.js';
import { checkHeld, expectedOf, wrong } from './held-checks.js';
import { CDS, EDS, globOf, isListed, partsOf } from './names.js';
import { Violation } from './oracle.js';
import { mayHaveBeenDenied } from './rights.js';
import type { Scene } from './scene.js';
import { nameOf } from './source-links.js';
import { SotwClient } from './sotw-client.js';
import { checkSotwExact } from './sotw-end-checks.js';
import { mayWander } from './wanderers.js';

/** More than the latencies plus the client's delay. */
const ANSWER_MS = 2_000;
/** An instance drops names without a client each second, and tells its source. */
const LEAVE_MS = 2_000;

/** @throws Violation */
export function checkEnd(scene: Scene): void {
  for (const link of scene.clients) {
    const { client } = link;
    if (!link.isOpen && !mayWander(scene, client))
      throw new Violation('2', `${client.spec.name} is not connected`);
    // A TTL that ends now is reported now.
    const sentMs = client.unacknowledgedSinceMs ?? Infinity;
    if (sentMs < scene.queue.nowMs - ANSWER_MS) {
      throw new Violation(
        '2',
        `${client.spec.name} was sent something, and does not acknowledge it`,
      );
    }
    for (const typeUrl of client.typeUrls) {
      if (client instanceof SotwClient) checkSotwExact(scene, client, typeUrl);
      else checkExact(scene, link, typeUrl);
    }
    checkEdges(scene, client);
  }
  checkUpstream(scene);
  for (const { name, federation } of scene.instances) {
    for (const { id, failover } of federation.groups) {
      if (failover.kind === 'primary' || failover.kind === 'idle') continue;
      const isOnItsWay = failover.kind === 'connecting' || failover.kind === 'reconnecting';
      if (isOnItsWay && scene.clients.some(({ client }) => mayWander(scene, client))) continue;
      throw new Violation('2', `${name} ${id} is ${failover.kind} though all is well`);
    }
  }
}

function checkExact(scene: Scene, link: ClientLink, typeUrl: string): void {
  const { client } = link;
  const { oracle } = scene;
  const { offered } = client.type(typeUrl);
  const expected = expectedOf(scene, client, typeUrl);
  const list = client.listOf(typeUrl);
  const listed = list === undefined ? undefined : oracle.listed(list);
  for (const [name, truth] of expected) {
    const held = offered.get(name);
    if (truth === 'unsure' || client.isFull(typeUrl, name)) continue;
    if (truth === 'nothing') {
      if (held && !client.excused.has(name) && !isLeftOver(scene, link, name, held))
        throw wrong(client, name, 'holds a resource that does not exist');
    } else checkHeld(client, name, held, truth);
  }
  for (const [name, held] of offered) {
    if (expected.has(name) || client.excused.has(name) || client.isFull(typeUrl, name)) continue;
    if (isLeftOver(scene, link, name, held)) continue;
    if (oracle.truth(name) === 'unsure' || (isListed(name) && listed === 'unsure')) continue;
    throw wrong(client, name, 'holds a resource that does not exist');
  }
}

/**
 * A member that the client got on an earlier stream. It stays if its list has changed meanwhile and one of the new
 * entries is never answered (docs/SPEC.md, "What each variant of a source does"; seed 20707). A member that the client
 * does not mention stays if the right to it ended meanwhile (docs/SPEC.md, "Not yet").
 */
function isLeftOver(
  { oracle }: Scene,
  { client, connectedMs }: ClientLink,
  name: string,
  { sentMs }: Held,
): boolean {
  const { typeUrl } = partsOf(name);
  if (sentMs >= connectedMs || client.type(typeUrl).subscribed.has(name)) return false;
  const list = isListed(name) ? client.listOf(typeUrl) : undefined;
  // The guard of the list's authority judges the members, whatever their own is (seed 123251).
  if (list !== undefined && (oracle.mayStayUnproven(list) || oracle.keepsDeleted(list)))
    return true;
  // A client may have the right to a name and not to its collection (seed 53681).
  return [name, globOf(name)].some((one) =>
    mayHaveBeenDenied(oracle.history.maps, client.spec.name, one),
  );
}

/** After a changed cluster its assignment is resent (ENVOY 5). */
function checkEdges({ oracle }: Scene, client: ModelClient): void {
  const assignments = client.type(EDS);
  for (const [name, cluster] of client.type(CDS).offered) {
    const { typeUrl } = partsOf(name);
    const { reference: eds } = cluster;
    const mayBeDenied = [name, ...(eds === '' ? [] : [eds])].some((one) =>
      mayHaveBeenDenied(oracle.history.maps, client.spec.name, one),
    );
    // A name that is granted again comes with the version that the client had.
    if (mayBeDenied) continue;
    const assignment = assignments.offered.get(eds);
    if (!assignment || !client.expectsAgain(eds) || client.isFull(EDS, eds)) continue;
    // A source of the state of the world does not say that it deleted it.
    if (oracle.truth(eds) === 'unsure') continue;
    const refused = client.nacked.has(eds) || client.nacked.has(name);
    if (assignment.order > cluster.changedAt || refused) continue;
    throw new Violation(
      'ENVOY 5',
      `${client.spec.name}: ${eds} was not sent after ${typeUrl} ${name} changed`,
    );
  }
}

function checkUpstream(scene: Scene): void {
  for (const link of scene.links.all) {
    const { stream, connection, instance } = link;
    if (!stream) continue;
    // An ACK may be on its way, and follows the last portion of its response.
    const server = instance.federation.servers.find(({ id }) => id === link.source);
    if (stream.unacknowledgedCount > 0 && connection.isQuiet && !server?.isMidResponse) {
      throw new Violation('5', `${link.source} waits for ${stream.unacknowledgedCount} ACKs`);
    }
    checkSubscribed(scene, nameOf(link.source), link.instance.name, stream.subscribed());
  }
}

/** Names subscribed at a source must be needed by a client, or have been just now (invariant 9). */
function checkSubscribed(
  { clients, oracle, queue, spec }: Scene,
  source: string,
  instance: string,
  subscribed: readonly string[],
): void {
  if (new Set(subscribed).size < subscribed.length) {
    throw new Violation('9', `${source} has one name subscribed twice`);
  }
  const needed = new Set<string>();
  // A client whose names no source answers may go from instance to instance for ever.
  const sinceMs = queue.nowMs - LEAVE_MS - spec.unsubscribedLingerMs * (1 + 2 * MOST_DRIFT);
  for (const link of clients) {
    const { client } = link;
    if (!link.wasAt(instance, sinceMs)) continue;
    for (const typeUrl of client.typeUrls) {
      for (const asked of client.type(typeUrl).subscribed) oracle.addNeeded(asked, source, needed);
    }
  }
  for (const name of subscribed) {
    if (!needed.has(name))
      throw new Violation('9', `${source} has a needless subscription to ${name}`);
  }
}

/** No client is left: no stream, no timer, no content (invariants 8, 9). */
export function checkLeft(scene: Scene): void {
  const [link] = scene.links.all;
  if (link) throw new Violation('8', `${link.source} is still connected to ${link.instance.name}`);
  for (const { name, federation, cache, streams, nowMs } of scene.instances) {
    if (streams.size > 0) throw new Violation('8', `${name} keeps a client's stream`);
    if (cache.nameCount + cache.globCount > 0) throw new Violation('9', `${name} keeps names`);
    const dueMs = federation.nextDeadlineMs(nowMs);
    if (dueMs !== undefined) throw new Violation('8', `${name} has a timer in ${dueMs - nowMs} ms`);
    for (const group of federation.groups) {
      if (group.servedCount > 0) throw new Violation('9', `${name} ${group.id} keeps content`);
    }
  }
}
