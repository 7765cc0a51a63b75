/**
 * Actions without faults: sources publish, change and delete; clients subscribe and unsubscribe.
 */
import type { AuthorityMap } from '../../config/model.js';
import type { ClientLink } from './client-link.js';
import {
  CDS,
  EDS,
  isOldAuthority,
  nameText,
  oldAuthority,
  partsOf,
  payload,
  RDS,
  redirectTo,
} from './names.js';
import { oldNamesOf } from './old-style.js';
import { Random } from './random.js';
import type { Scene } from './scene.js';
import type { Upstream } from './upstream.js';
import { toggledType } from './wildcard-toggles.js';
import { globsOf } from './world.js';

const PUBLISHED_AT_FIRST = 0.6;

export class Workload {
  readonly #scene: Scene;
  readonly #dice: Random;
  /** By source, for the present map. */
  readonly #names = new Map<string, readonly string[]>();
  #namesFor: AuthorityMap | undefined;
  #stopped = false;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#dice = new Random(scene.spec.seed, 'workload');
  }

  start(): void {
    const { upstreams, clients, instances } = this.#scene;
    for (const server of upstreams.values()) {
      for (const name of this.#namesOf(server)) {
        if (this.#dice.chance(PUBLISHED_AT_FIRST)) this.#publish(server, name);
      }
    }
    for (const client of clients) {
      for (const typeUrl of this.#scene.spec.types) {
        if (this.#dice.chance(0.8)) client.change(typeUrl, this.#askable(client, typeUrl, 3), []);
      }
      client.ackMs = this.#dice.pick([0, 5, 500]);
      client.connect(this.#dice.pick(instances), true);
    }
    this.#next();
  }

  stop(): void {
    this.#stopped = true;
  }

  #next(): void {
    const { queue, spec } = this.#scene;
    queue.after(this.#dice.between(1, 2 * spec.workloadEveryMs), () => {
      if (this.#stopped) return;
      this.#happen();
      this.#next();
    });
  }

  #happen(): void {
    const what = this.#dice.below(10);
    if (what < 5) this.#changeSome();
    else if (what < 6) this.#mirror();
    else this.#changeDemand();
  }

  // ---- sources ------------------------------------------------------------------------------

  /** Names that the map lets a source publish. */
  #namesOf({ name: source }: Upstream): readonly string[] {
    const { spec, map } = this.#scene;
    if (this.#namesFor !== map) this.#names.clear();
    this.#namesFor = map;
    let names = this.#names.get(source);
    if (names) return names;
    names = [...map.authorities.values()]
      .filter(({ sources }) => sources.includes(source))
      .flatMap(({ name }) =>
        spec.types.flatMap((typeUrl) => spec.ids.map((id) => nameText(name, typeUrl, id))),
      )
      .concat(oldNamesOf(spec, map, source));
    this.#names.set(source, names);
    return names;
  }

  /** Changes a few names at once, as control planes do. */
  #changeSome(): void {
    const server = this.#dice.pick([...this.#scene.upstreams.values()]);
    const names = this.#namesOf(server);
    if (names.length === 0) return;
    const count = this.#dice.pick([1, 1, 2, 5]);
    const changed = new Set(Array.from({ length: count }, () => this.#dice.pick(names)));
    for (const name of changed) {
      if (this.#dice.chance(0.3)) this.delete(server, name);
      else this.#publish(server, name);
    }
    server.announce([...changed]);
  }

  publishSomeOfAll(): void {
    for (const server of this.#scene.upstreams.values()) {
      const changed = this.#dice.some(this.#namesOf(server), 0.3);
      for (const name of changed) this.#publish(server, name);
      server.announce(changed);
    }
  }

  #publish(server: Upstream, name: string): void {
    const { oracle, queue, spec } = this.#scene;
    const mark = oracle.history.newMark();
    const { authority, typeUrl } = partsOf(name);
    const mayRedirect = spec.redirects.includes(typeUrl) && !isOldAuthority(authority);
    const redirect = mayRedirect && this.#dice.chance(0.15) ? this.#target(typeUrl) : undefined;
    const reference = redirect === undefined ? referenceOf(name) : '';
    oracle.history.notePublished({
      mark,
      source: server.name,
      name,
      reference,
      redirect,
      atMs: queue.nowMs,
    });
    if (redirect === undefined) server.set(name, payload(typeUrl, name, reference, mark), false);
    else server.set(name, redirectTo(redirect), true);
    this.#scene.log(`${server.name} publishes ${name} #${mark} ${redirect ?? ''}`);
  }

  /** Any name, including one that the map does not allow, and one that closes a cycle. */
  #target(typeUrl: string): string {
    const { map, spec } = this.#scene;
    return nameText(
      this.#dice.pick([...map.authorities.keys()]),
      typeUrl,
      this.#dice.pick(spec.ids),
    );
  }

  delete(server: Upstream, name: string): void {
    if (!server.get(name)) return;
    server.delete(name);
    this.#scene.oracle.history.noteDeleted(server.name, name, this.#scene.queue.nowMs);
    this.#scene.log(`${server.name} deletes ${name}`);
  }

  /** The second source of an authority gets the same content as the first, byte for byte. */
  #mirror(): void {
    const { map, upstreams, oracle, queue } = this.#scene;
    const entries = map.oldStyle?.servedBy ?? [];
    const spec = this.#dice.pick([...map.authorities.values(), ...entries]);
    const [from, to] = spec.sources.map((source) => upstreams.get(source)!);
    if (!from || !to) return;
    const isOld = !map.authorities.has(spec.name);
    const names = from.names.filter((name) => {
      const { authority } = partsOf(name);
      return isOld ? isOldAuthority(authority) : authority === spec.name;
    });
    for (const name of names) {
      const published = oracle.history.current(from.name, name);
      const resource = from.get(name);
      if (!published || !resource) continue;
      oracle.history.notePublished({ ...published, source: to.name, atMs: queue.nowMs });
      to.set(name, resource.body, resource.isRedirect);
    }
    this.#scene.log(`${to.name} mirrors ${from.name}`);
    to.announce(names);
  }

  // ---- clients ------------------------------------------------------------------------------

  #askable({ client }: ClientLink, typeUrl: string, most: number): string[] {
    const { map, spec } = this.#scene;
    const { node } = client.spec;
    const isToggled = spec.rare === 'wildcards' && typeUrl === toggledType(spec.types);
    const old = node === undefined || isToggled ? [] : [oldAuthority(node), oldAuthority(node)];
    const asked = new Set<string>();
    for (let count = this.#dice.between(1, most); count > 0; count--) {
      const authority = this.#dice.pick([...map.authorities.keys(), ...spec.strangers, ...old]);
      const ids = this.#dice.chance(0.4) || spec.asksGlobsOnly ? globsOf(spec) : spec.ids;
      const id = this.#dice.pick(ids);
      const isWildcard =
        isOldAuthority(authority) && (id.endsWith('*') || spec.rare === 'wildcards');
      asked.add(nameText(authority, typeUrl, isWildcard ? '*' : id));
    }
    return [...asked];
  }

  #changeDemand(): void {
    const { clients, spec } = this.#scene;
    const link = this.#dice.pick(clients);
    const typeUrl = this.#dice.pick(spec.types);
    const { subscribed } = link.client.type(typeUrl);
    const leaves = this.#dice.chance(0.5) ? this.#dice.some([...subscribed], 0.4) : [];
    const asks = this.#dice.chance(0.6) ? this.#askable(link, typeUrl, 2) : [];
    // Unsubscribed and subscribed in one request means subscribed again.
    if (leaves.length + asks.length > 0) link.change(typeUrl, asks, leaves);
  }
}

/** The assignment of a cluster, or the cluster of a route, with the same id. */
function referenceOf(name: string): string {
  const { typeUrl, authority, id } = partsOf(name);
  if (typeUrl === CDS) return nameText(authority, EDS, id);
  return typeUrl === RDS ? nameText(authority, CDS, id) : '';
}
