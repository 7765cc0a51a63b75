/**
 * List collections in a simulated world: sources publish them, clients subscribe them. Targets of
 * lists are subscribed in no other way, and a client subscribes at most one list per type, since
 * nothing on the wire shows which list a member came from. Some lists have inline entries, which
 * clients also request by `#entry=`, and to which other lists lead.
 */
import {
  entryText,
  inlineText,
  isList,
  lengthDelimited,
  listText,
  nameText,
  partsOf,
  payload,
} from './names.js';
import { Random } from './random.js';
import type { Scene } from './scene.js';
import type { Upstream } from './upstream.js';

const LIST_IDS = ['l1', 'l2'];
const MEMBER_IDS = ['m/1', 'm/2', 'm/3'];
const MEMBER_GLOB = 'm/*';

const ENTRY_NAMES = ['i1', 'i2'];

/** A `<T>Collection`. @param inline the marks of its inline entries; the rest are locators */
const listBytes = (entries: readonly string[], inline: ReadonlyMap<string, number>): Buffer =>
  Buffer.concat(
    entries.map((entry) => {
      const mark = inline.get(entry);
      const isLocator = mark === undefined;
      const bytes = isLocator ? locatorBytes(entry) : inlineBytes(entry, mark);
      return lengthDelimited(1, lengthDelimited(isLocator ? 1 : 2, bytes));
    }),
  );

/** In the text form of TP1. The entry of another list has no other name at its source. */
function locatorBytes(target: string): Buffer {
  const { entryOf } = partsOf(target);
  return Buffer.from(entryOf === undefined ? target : entryText(entryOf, entryName(target)));
}

/** An `InlineEntry` with content under its own name, or with a name that counts for nothing. */
function inlineBytes(name: string, mark: number): Buffer {
  const { typeUrl } = partsOf(name);
  const entry = entryName(name);
  const ownName = entry === ENTRY_NAMES[0] ? name : `the payload of ${name}`;
  const body = payload(typeUrl, ownName, '', mark);
  const any = [lengthDelimited(1, Buffer.from(typeUrl)), lengthDelimited(2, body)];
  return Buffer.concat([
    lengthDelimited(1, Buffer.from(entry)),
    lengthDelimited(3, Buffer.concat(any)),
  ]);
}

const entryName = (name: string): string => name.slice(name.lastIndexOf('/') + 1);

/** @param kept inline entries whose content does not change */
export function publishList(
  scene: Scene,
  server: Upstream,
  name: string,
  list: readonly string[],
  kept: readonly string[] = [],
): void {
  const { history } = scene.oracle;
  const mark = history.newMark();
  const { name: source } = server;
  const own = list.filter((entry) => partsOf(entry).entryOf === name);
  const inline = new Map(
    own.map((entry) => {
      const before = kept.includes(entry) ? history.current(source, entry)?.mark : undefined;
      return [entry, before ?? history.newMark()];
    }),
  );
  history.notePublished({
    ...{ mark, source, name, reference: '', redirect: undefined, list, inline },
    atMs: scene.queue.nowMs,
  });
  server.set(name, listBytes(list, inline), false);
  scene.log(`${source} publishes ${name} #${mark} [${list.join(' ')}]`);
}

export class ListWorkload {
  readonly #scene: Scene;
  readonly #dice: Random;
  readonly #entryDice: Random;
  #stopped = false;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#dice = new Random(scene.spec.seed, 'lists');
    this.#entryDice = new Random(scene.spec.seed, 'list entries');
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
      if (spec.hasEntries && this.#entryDice.chance(0.3)) this.#askForEntry();
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
    else if (isOfList) this.#publishList(server, name, typeUrl);
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

  #publishList(server: Upstream, name: string, typeUrl: string): void {
    const { map, spec } = this.#scene;
    const entries = this.#entries(typeUrl);
    const dice = this.#entryDice;
    if (!spec.hasEntries) {
      publishList(this.#scene, server, name, entries);
      return;
    }
    const others = LIST_IDS.map((id) =>
      listText(dice.pick([...map.authorities.keys()]), typeUrl, id),
    );
    const inline = [...new Set([name, name, ...others])].flatMap((list) =>
      dice.some(ENTRY_NAMES, 0.4).map((entry) => inlineText(list, entry)),
    );
    const list = dice.shuffled([...new Set([...entries, ...inline])]);
    publishList(this.#scene, server, name, list, dice.some(inline, 0.5));
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

  /** Subscribes one entry of a list by `#entry=`, or unsubscribes those of a type. */
  #askForEntry(): void {
    const { clients, spec, map } = this.#scene;
    const dice = this.#entryDice;
    const link = dice.pick(clients);
    const typeUrl = dice.pick(spec.types);
    const { subscribed } = link.client.type(typeUrl);
    const asked = [...subscribed].filter(
      (name) => !isList(name) && partsOf(name).entryOf !== undefined,
    );
    if (asked.length > 0 && dice.chance(0.4)) {
      link.change(typeUrl, [], asked);
      return;
    }
    const list = listText(dice.pick([...map.authorities.keys()]), typeUrl, dice.pick(LIST_IDS));
    link.change(typeUrl, [entryText(list, dice.pick(ENTRY_NAMES))], []);
  }
}
