/**
 * List collections in a simulated world: sources publish them, clients subscribe them. Targets of
 * lists are subscribed in no other way, and a client subscribes at most one list per type, since
 * nothing on the wire shows which list a member came from.
 */
import { lengthDelimited, listText, nameText, partsOf, payload } from './names.js';
import { Random } from './random.js';
import type { Scene } from './scene.js';
import type { Upstream } from './upstream.js';

const LIST_IDS = ['l1', 'l2'];
const MEMBER_IDS = ['m/1', 'm/2', 'm/3'];
const MEMBER_GLOB = 'm/*';

/** A `<T>Collection` of locators, in the text form of TP1. */
const listBytes = (entries: readonly string[]): Buffer =>
  Buffer.concat(entries.map((entry) => lengthDelimited(1, lengthDelimited(1, Buffer.from(entry)))));

export function publishList(
  scene: Scene,
  server: Upstream,
  name: string,
  list: readonly string[],
): void {
  const { oracle, queue } = scene;
  const mark = oracle.history.newMark();
  const { name: source } = server;
  oracle.history.notePublished({
    ...{ mark, source, name, reference: '', redirect: undefined, list },
    atMs: queue.nowMs,
  });
  server.set(name, listBytes(list), false);
  scene.log(`${source} publishes ${name} #${mark} [${list.join(' ')}]`);
}

export class ListWorkload {
  readonly #scene: Scene;
  readonly #dice: Random;
  #stopped = false;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#dice = new Random(scene.spec.seed, 'lists');
  }

  start(): void {
    if (!this.#scene.spec.hasLists) return;
    this.publishSome();
    for (let count = this.#scene.clients.length; count > 0; count--) this.#changeDemand();
    this.#next();
  }

  stop(): void {
    this.#stopped = true;
  }

  /** Publishes lists and targets of lists at every source. */
  publishSome(): void {
    if (!this.#scene.spec.hasLists) return;
    for (const server of this.#scene.upstreams.values()) {
      for (let count = 0; count < 4; count++) this.#change(server);
    }
  }

  #next(): void {
    const { queue, spec, upstreams } = this.#scene;
    queue.after(this.#dice.between(1, 4 * spec.workloadEveryMs), () => {
      if (this.#stopped) return;
      if (this.#dice.chance(0.7)) this.#change(this.#dice.pick([...upstreams.values()]));
      else this.#changeDemand();
      this.#next();
    });
  }

  #change(server: Upstream): void {
    const { map, spec } = this.#scene;
    const own = [...map.authorities.values()].filter(({ sources }) =>
      sources.includes(server.name),
    );
    if (own.length === 0) return;
    const authority = this.#dice.pick(own).name;
    const typeUrl = this.#dice.pick(spec.types);
    const isOfList = this.#dice.chance(0.4);
    const name = isOfList
      ? listText(authority, typeUrl, this.#dice.pick(LIST_IDS))
      : nameText(authority, typeUrl, this.#dice.pick(MEMBER_IDS));
    if (this.#dice.chance(0.25)) this.#delete(server, name);
    else if (isOfList) publishList(this.#scene, server, name, this.#entries(typeUrl));
    else this.#publishMember(server, name);
    server.announce([name]);
  }

  /** Names and globs anywhere, including those that the map does not allow. */
  #entries(typeUrl: string): readonly string[] {
    const authorities = [...this.#scene.map.authorities.keys()];
    const entries = Array.from({ length: this.#dice.below(4) }, () =>
      nameText(
        this.#dice.pick(authorities),
        typeUrl,
        this.#dice.pick([...MEMBER_IDS, MEMBER_GLOB]),
      ),
    );
    return [...new Set(entries)];
  }

  #publishMember(server: Upstream, name: string): void {
    const { oracle, queue } = this.#scene;
    const mark = oracle.history.newMark();
    const { name: source } = server;
    const fields = { mark, source, name, reference: '', redirect: undefined };
    oracle.history.notePublished({ ...fields, atMs: queue.nowMs });
    server.set(name, payload(partsOf(name).typeUrl, name, '', mark), false);
    this.#scene.log(`${source} publishes ${name} #${mark}`);
  }

  #delete(server: Upstream, name: string): void {
    if (!server.get(name)) return;
    server.delete(name);
    this.#scene.oracle.history.noteDeleted(server.name, name, this.#scene.queue.nowMs);
    this.#scene.log(`${server.name} deletes ${name}`);
  }

  /** Subscribes a list, subscribes it again, or unsubscribes it. */
  #changeDemand(): void {
    const { clients, spec, map } = this.#scene;
    const link = this.#dice.pick(clients);
    const typeUrl = this.#dice.pick(spec.types);
    if (link.client.spec.sotw) return;
    const asked = link.client.listOf(typeUrl);
    if (asked === undefined) {
      const authority = this.#dice.pick([...map.authorities.keys()]);
      link.change(typeUrl, [listText(authority, typeUrl, this.#dice.pick(LIST_IDS))], []);
    } else if (this.#dice.chance(0.6)) link.change(typeUrl, [], [asked]);
    else link.change(typeUrl, [asked], []);
  }
}
