/**
 * Checks that instances agree through hints: when a source sends a change to one instance only, the
 * others receive a hint and request the resource. That takes seconds, or until the next digest if
 * the hint was lost (docs/INSTANCES.md).
 */
import { HeldDigest } from '../../gateway/core/peers/held-digest.js';
import type { NameState } from '../../gateway/core/cache/entries.js';
import type { ResourceCache } from '../../gateway/core/cache/resource-cache.js';
import { bodyOf } from '../../protos/resource-field.js';
import type { Instance } from './instance.js';
import { globOf, isGlob, markOf, nameText, lacksEndpoints, partsOf } from './names.js';
import { Violation } from './oracle.js';
import { parsedName } from './parsed-names.js';
import { deleteName, publishContent } from './publishing.js';
import type { Random } from './random.js';
import type { Scene } from './scene.js';
import type { Link } from './source-links.js';
import { isWholeType } from './upstream-wire.js';

/** The grace period, the time for another instance to fetch it first, and the latencies. */
export const HINT_MS = 5_000;
/**
 * The longest time between two digests, plus the minimum time between two requests for one name.
 */
export const DIGEST_MS = 120_000;
const SAME_NAME_MS = 10_000;

/** A changed name, and the instances that must learn of it. */
export interface HalfTold {
  readonly name: string;
  readonly mark: number | undefined;
  /** The instance to which the source sends the change. */
  readonly told: Instance;
  readonly instances: readonly Instance[];
}

/**
 * Subscribes clients of all instances to the same names, without the collections that contain them.
 */
export function askForTheSame(scene: Scene, dice: Random): void {
  const { clients, spec, map } = scene;
  const authority = dice.pick([...map.authorities.keys()]);
  const typeUrl = dice.pick(spec.types);
  if (dice.chance(0.4)) deleteAll(scene, authority, typeUrl);
  for (const id of dice.some(spec.ids, 0.6)) {
    const name = nameText(authority, typeUrl, id);
    for (const link of clients) {
      const { subscribed } = link.client.type(typeUrl);
      const left = subscribed.has(globOf(name)) ? [globOf(name)] : [];
      if (left.length > 0 || !subscribed.has(name)) link.change(typeUrl, [name], left);
    }
  }
}

/** Afterwards no instance holds anything of it. */
function deleteAll(scene: Scene, authority: string, typeUrl: string): void {
  for (const source of scene.map.authorities.get(authority)?.sources ?? []) {
    const server = scene.upstreams.get(source)!;
    const gone = server.names.filter((name) => {
      const parts = partsOf(name);
      return parts.authority === authority && parts.typeUrl === typeUrl;
    });
    for (const name of gone) deleteName(scene, server, name);
    server.announce(gone);
  }
}

/** Changes names at their sources; each source sends the change to one instance only. */
export function changeHalfTold(scene: Scene, dice: Random): readonly HalfTold[] {
  return askedNames(scene).flatMap((name): readonly HalfTold[] => {
    const source = scene.map.authorities.get(partsOf(name).authority)?.sources[0];
    const links = source === undefined ? [] : linksThatAsk(scene, source, name);
    const isForAll =
      links.length > 1 && links.every(({ instance }) => stateIn(instance.cache, name));
    if (source === undefined || !isForAll || dice.chance(0.5)) return [];
    const server = scene.upstreams.get(source)!;
    // Its response to another request may take longer than the bound.
    if (server.pieces) return [];
    // What an instance holds of a whole set is not requested again.
    if (server.isSotw && isWholeType(partsOf(name).typeUrl)) return [];
    if (server.get(name) && dice.chance(0.3)) deleteName(scene, server, name);
    else publishContent(scene, server, name);
    const told = dice.pick(links);
    scene.log(`${source} sends ${name} to ${told.instance.name} only`);
    told.stream?.announce([name]);
    const mark = scene.oracle.history.current(source, name)?.mark;
    return [{ name, mark, told: told.instance, instances: links.map(({ instance }) => instance) }];
  });
}

/** Cuts the connection of an instance that did not get the change: what it sends later is stale. */
export function cutOneWhoIsLate({ peerNet }: Scene, [change]: readonly HalfTold[]): void {
  const late = change?.instances.findLast((one) => one !== change.told)?.peer;
  if (change && change.instances.length > 2 && late) peerNet?.nats.cut(late);
}

/**
 * @throws Violation if an instance that received the hint and could request the name did not learn
 * it.
 */
export function checkHeard({ oracle, peerNet }: Scene, changes: readonly HalfTold[]): void {
  for (const { name, mark, instances } of changes) {
    if (oracle.truth(name) === 'unsure') continue;
    // The deletion guard may hold it back for longer.
    if (mark !== undefined && lacksEndpoints(partsOf(name).typeUrl, mark)) continue;
    for (const { name: instance, process, cache, nowMs } of instances) {
      const askedMs = peerNet!.watch.askedMs(process, `${partsOf(name).typeUrl} ${name}`);
      const wasJustAsked = askedMs > nowMs - HINT_MS - SAME_NAME_MS && askedMs < nowMs - HINT_MS;
      const held = markIn(cache, name);
      if (held === mark || wasJustAsked) continue;
      throw new Violation(
        '14',
        `${instance} has heard of ${name} #${mark ?? 0}, and holds #${held ?? 0}`,
      );
    }
  }
}

/** An instance's digest must equal what it holds. */
export function checkDigests({ instances }: Scene): void {
  for (const { name, peer, cache } of instances) {
    if (!peer) continue;
    const digest = new HeldDigest();
    const held = new Set<string>();
    const note = (...[typeUrl, one, , version]: Parameters<HeldDigest['handle']>): void => {
      const key = `${typeUrl} ${one.key}`;
      if (!held.has(key)) digest.handle(typeUrl, one, undefined, version);
      held.add(key);
    };
    for (const { typeUrl, name: one, state } of cache.names()) {
      if (state.kind === 'present') note(typeUrl, one, undefined, state.projection.version);
    }
    for (const { typeUrl, collection } of cache.globs()) {
      for (const { projection } of collection.members.since(-1)) {
        note(typeUrl, projection.name, undefined, projection.version);
      }
    }
    const [is, told] = [digest.rows(), peer.digest()].map((rows) => JSON.stringify(rows));
    if (is !== told) throw new Violation('14', `${name} holds ${is}, but its digest is ${told}`);
  }
}

/** Names that clients subscribe to by themselves and that are not redirects. */
function askedNames({ clients, oracle, map }: Scene): readonly string[] {
  const all = new Set<string>();
  for (const { client } of clients) {
    for (const typeUrl of client.typeUrls) {
      for (const name of client.type(typeUrl).subscribed) all.add(name);
    }
  }
  return [...all].filter((name) => {
    const primary = map.authorities.get(partsOf(name).authority)?.sources[0];
    if (primary === undefined || isGlob(name)) return false;
    return oracle.history.current(primary, name)?.redirect === undefined;
  });
}

/** Empty if one of them also has the glob: a live stream delivers the changes of a collection. */
function linksThatAsk({ links }: Scene, source: string, name: string): readonly Link[] {
  const asking: Link[] = [];
  for (const link of links.of(source)) {
    const subscribed = link.stream?.subscribed() ?? [];
    if (subscribed.includes(globOf(name))) return [];
    if (subscribed.includes(name)) asking.push(link);
  }
  return asking;
}

const stateIn = (cache: ResourceCache, name: string): NameState | undefined =>
  cache.stateOf(partsOf(name).typeUrl, parsedName(name));

function markIn(cache: ResourceCache, name: string): number | undefined {
  const state = stateIn(cache, name);
  return state?.kind === 'present' ? markOf(bodyOf(state.projection.field)) : undefined;
}
