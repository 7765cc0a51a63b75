/**
 * Goal: no response of listeners or clusters leaves out a held resource that no source deleted,
 * whatever happens to the sources, the map, the gateway and the clients.
 * Method: random histories over the real upstream core and cache, servers in memory, and model
 * clients that record what they hold (fast-check prints the seed).
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import { nameOf } from '../../../../support/federation-driver.js';
import { SotwClient } from '../../../../support/sotw-driver.js';
import {
  ASKED,
  AUTHORITY_OF,
  FULL,
  IDS,
  markOf,
  SOURCES,
  SotwWorld,
  textFor,
  TYPES,
  WHOLE,
  WITHOUT_OTHER,
} from '../../../../support/sotw-world.js';

const CLIENTS = 2;
const CLUSTER = TYPE_URL.cluster;

interface World {
  readonly rig: SotwWorld;
}
type Model = Record<string, never>;
class Command implements fc.Command<Model, World> {
  constructor(
    readonly text: string,
    readonly act: (rig: SotwWorld) => void,
  ) {}
  check(): boolean {
    return true;
  }
  run(_model: Model, { rig }: World): void {
    this.act(rig);
  }
  toString(): string {
    return this.text;
  }
}

const typeUrl = fc.constantFrom(...TYPES);
const source = fc.constantFrom(...SOURCES);
const clientIndex = fc.nat({ max: CLIENTS - 1 });
const at = (rig: SotwWorld, index: number): SotwClient => rig.clients[index] as SotwClient;
const short = (type: string): string => type.slice(type.lastIndexOf('.') + 1);

const ask = fc
  .tuple(
    clientIndex,
    typeUrl,
    fc.uniqueArray(fc.tuple(fc.constantFrom('cloud', 'other'), fc.constantFrom(...ASKED)), {
      maxLength: 5,
    }),
  )
  .map(([index, type, pairs]) => {
    const names = pairs.map(([a, id]) => textFor(type, a, id));
    return new Command(
      `${index} asks ${short(type)} [${pairs.map((p) => p.join(':')).join()}]`,
      (rig) => {
        const client = at(rig, index);
        if (names.length === 0 && client.type(type).names.length === 0) return;
        assert.equal(client.ask(type, ...names), undefined);
        rig.driver.pump();
      },
    );
  });
const put = fc.tuple(source, typeUrl, fc.constantFrom(...IDS)).map(
  ([s, type, id]) =>
    new Command(`${s} has ${short(type)} ${id}`, (rig) => {
      rig.put(s, type, id);
    }),
);
const list = fc.tuple(source, typeUrl, fc.uniqueArray(fc.constantFrom('solo', 'g/1', 'g/*'))).map(
  ([s, type, ids]) =>
    new Command(`${s} has list ${short(type)} ${ids.join()}`, (rig) => {
      rig.list(s, type, ids);
      for (const client of rig.clients) client.noteWent();
      for (const id of [...IDS]) rig.deleted.add(`list ${AUTHORITY_OF[s]} ${type} ${id}`);
    }),
);
const remove = fc.tuple(source, typeUrl, fc.constantFrom(...IDS)).map(
  ([s, type, id]) =>
    new Command(`${s} deletes ${short(type)} ${id}`, (rig) => {
      rig.delete(s, type, id);
      for (const client of rig.clients) client.noteWent();
    }),
);
const fault = fc.tuple(source, fc.constantFrom('kill', 'hole', 'revive', 'cut', 'revive')).map(
  ([s, what]) =>
    new Command(`${what} ${s}`, (rig) => {
      if (what === 'kill') rig.driver.kill(s);
      else if (what === 'hole') rig.swallow(s);
      else if (what === 'cut') rig.driver.cut(s);
      else rig.driver.revive(s);
      for (const client of rig.clients) client.noteWent();
      rig.driver.pump();
    }),
);
const stall = fc
  .tuple(source, typeUrl, fc.constantFrom(...IDS, 'g/*'), fc.boolean())
  .map(([s, type, id, on]) => {
    return new Command(`${s} ${on ? 'stalls' : 'answers'} ${short(type)} ${id}`, (rig) => {
      if (on) rig.stall(s, type, id);
      else rig.unstall(s, type, id);
    });
  });
const poll = clientIndex.map(
  (index) =>
    new Command(`${index} reads`, (rig) => {
      at(rig, index).poll();
    }),
);
const acknowledge = fc.tuple(clientIndex, typeUrl, fc.integer({ min: 0, max: 4 })).map(
  ([index, type, how]) =>
    new Command(`${index} ${how > 0 ? 'ACK' : 'NACK'} ${short(type)}`, (rig) => {
      if (how > 0) at(rig, index).ack(type);
      else at(rig, index).nack(type);
      rig.driver.pump();
    }),
);
const acknowledgeNewest = fc.tuple(clientIndex, typeUrl, fc.boolean()).map(
  ([index, type, isLate]) =>
    new Command(`${index} ACK ${short(type)}, ${isLate ? 'late' : 'the newest'}`, (rig) => {
      if (isLate) at(rig, index).ackLate(type);
      else at(rig, index).ackNewest(type);
      rig.driver.pump();
    }),
);
const reconnect = fc.tuple(clientIndex, fc.nat({ max: 40_000 })).map(
  ([index, awayMs]) =>
    new Command(`${index} away for ${awayMs} ms`, (rig) => {
      at(rig, index).disconnect();
      rig.advance(awayMs);
      at(rig, index).reconnect();
      rig.driver.pump();
    }),
);
const advance = fc.oneof(fc.nat({ max: 3_000 }), fc.nat({ max: 40_000 })).map(
  (ms) =>
    new Command(`${ms} ms pass`, (rig) => {
      rig.advance(ms);
    }),
);
const settle = clientIndex.map(
  (index) =>
    new Command(`${index} settles`, (rig) => {
      at(rig, index).settle();
      rig.driver.pump();
      at(rig, index).settle();
    }),
);
const restart = fc.constant(0).map(
  () =>
    new Command('restart', (rig) => {
      rig.restart();
    }),
);
const reload = fc.boolean().map(
  (full) =>
    new Command(`map ${full ? 'full' : 'without other'}`, (rig) => {
      rig.map = full ? FULL : WITHOUT_OTHER;
      if (!full)
        for (const type of TYPES) for (const id of IDS) rig.deleted.add(`other ${type} ${id}`);
      rig.driver.reload(rig.map);
      for (const client of rig.clients) client.noteWent();
    }),
);

/** @param sets by type and version, of all clients: the one set of that version */
function watchResponses(rig: SotwWorld, client: SotwClient, sets: Map<string, string>): void {
  client.check = ({ typeUrl: type, versionInfo, resources }, held) => {
    if (!WHOLE.includes(type)) return;
    const keys = new Set(resources.map(({ name }) => nameOf(name ?? '').key));
    for (const [key, content] of held) {
      const stays = !keys.has(key) && client.wants(type, key) && !isPlaceholder(content);
      if (stays) assert.ok(mayGo(rig, client, type, key), `${key} is left out (invariant 19)`);
    }
    const set = resources
      .map(({ name, version }) => `${name} ${version}`)
      .sort()
      .join();
    const known = sets.get(`${type} ${versionInfo}`) ?? set;
    assert.equal(set, known, `version ${versionInfo} identifies one set (GRPC 6)`);
    sets.set(`${type} ${versionInfo}`, set);
  };
}

const isPlaceholder = (content: string): boolean => markOf(content).startsWith('?');

/** A source of its authority deleted it, or removed it from the list that the client subscribes. */
function mayGo({ deleted }: SotwWorld, client: SotwClient, type: string, key: string): boolean {
  const { authority, id } = nameOf(key);
  const speakers = authority === 'cloud' ? ['cloud', 'onprem'] : [authority];
  const byListAlone = !client.type(type).names.some((text) => {
    return text === key || (text.endsWith('/*') && key.startsWith(text.slice(0, -1)));
  });
  return speakers.some((one) => {
    const isUnlisted = byListAlone && deleted.has(`list ${one} ${type} ${id}`);
    return isUnlisted || deleted.has(`${one} ${type} ${id}`);
  });
}

/** Heals everything, and waits long enough. */
function quiesce(rig: SotwWorld): void {
  for (const s of SOURCES) {
    const server = rig.driver.server(s);
    server.stalled.clear();
    rig.driver.revive(s);
    // Names left unanswered are requested on the next stream.
    rig.driver.cut(s);
  }
  rig.map = FULL;
  rig.driver.reload(FULL);
  for (let round = 0; round < 12; round++) {
    for (const client of rig.clients) client.settle();
    rig.driver.pump();
    for (const client of rig.clients) client.settle();
    rig.advance(round < 8 ? 20_000 : 60_000);
  }
  for (const client of rig.clients) client.settle();
}

function checkExact(rig: SotwWorld, client: SotwClient): void {
  for (const type of TYPES) {
    const { names, held } = client.type(type);
    // The tests of lists check members of lists.
    if (names.some((text) => text.includes('Collection/'))) continue;
    const expected = new Map<string, string>();
    for (const text of names) {
      const keys = text.endsWith('/*') ? MEMBERS.map((id) => text.replace('g/*', id)) : [text];
      for (const key of keys) {
        const source = nameOf(key).authority === 'cloud' ? 'c1' : 'x';
        const one = rig.driver.server(source).get(type, key);
        if (one) expected.set(key, markOf(Buffer.from(one.body).toString()));
      }
    }
    // Deleted resources of other types stay at the client.
    const got = [...held].filter(([key, content]) => {
      const counts = WHOLE.includes(type) || expected.has(key);
      return counts && !isPlaceholder(content) && client.wants(type, key);
    });
    const marks = got.map(([key, content]) => [key, markOf(content)] as const);
    assert.deepEqual(
      sorted(marks),
      sorted([...expected]),
      `the existing ${type} resources (invariant 2)`,
    );
  }
}

const MEMBERS = IDS.filter((id) => id.startsWith('g/'));
const sorted = (pairs: readonly (readonly [string, string])[]) =>
  [...pairs].sort(([a], [b]) => (a < b ? -1 : 1));

function worldOf(settings: ConstructorParameters<typeof SotwWorld>[0]): SotwWorld {
  const rig = new SotwWorld(settings);
  for (const s of SOURCES) {
    for (const type of TYPES) {
      // The second source never had one of them.
      for (const id of IDS) if (s !== 'c2' || id !== 'solo') rig.put(s, type, id);
      rig.list(s, type, ['solo', 'g/*']);
    }
  }
  return rig;
}

function connect(rig: SotwWorld, placeholderAfterMs: number | undefined): SotwClient {
  const client = new SotwClient(rig, { placeholderAfterMs });
  const wantsByName = client.wants.bind(client);
  client.wants = (type, key) => {
    const list = textFor(type, nameOf(key).authority, 'LIST');
    return wantsByName(type, key) || client.type(type).names.includes(list);
  };
  return client;
}

const commands = fc.commands(
  [
    ...[
      ask,
      ask,
      ask,
      put,
      put,
      list,
      remove,
      fault,
      fault,
      stall,
      stall,
      poll,
      acknowledge,
      acknowledgeNewest,
    ],
    ...[settle, settle, settle, reconnect, advance, advance, restart, reload],
  ],
  { maxCommands: 100, size: 'max' },
);

t.test(
  'a held resource that no source deleted is in every response of listeners and clusters (invariants 2, 3, 17, 19)',
  (t) => {
    let responses = 0;
    const chunkBytes = fc.constantFrom(1, 1_000_000);
    const placeholderAfterMs = fc.constantFrom(undefined, 5_000);
    const lingerMs = fc.constantFrom(0, 30_000);
    fc.assert(
      fc.property(commands, chunkBytes, placeholderAfterMs, lingerMs, (cmds, bytes, after, ms) => {
        const rig = worldOf({ chunkBytes: bytes, unsubscribedLingerMs: ms });
        const sets = new Map<string, string>();
        for (let i = 0; i < CLIENTS; i++) {
          const client = connect(rig, after);
          rig.clients.push(client);
          watchResponses(rig, client, sets);
        }
        fc.modelRun(() => ({ model: {}, real: { rig } }), cmds);
        quiesce(rig);
        for (const client of rig.clients) {
          checkExact(rig, client);
          responses += client.responses;
        }
      }),
      {
        numRuns: Number(process.env['FC_RUNS'] ?? 200),
        ...(process.env['FC_SEED'] ? { seed: Number(process.env['FC_SEED']) } : {}),
      },
    );
    t.ok(responses > 1_000, `${responses} responses were checked`);
    t.end();
  },
);

/** One client that no placeholder is sent, whose responses are checked. */
function worldOfOne() {
  const rig = worldOf({ chunkBytes: 1, unsubscribedLingerMs: 0 });
  const client = connect(rig, undefined);
  rig.clients.push(client);
  watchResponses(rig, client, new Map());
  const ask = (...asked: readonly (readonly [authority: string, id: string])[]): void => {
    client.ask(CLUSTER, ...asked.map(([authority, id]) => textFor(CLUSTER, authority, id)));
    rig.driver.pump();
  };
  const holds = (authority: string, id: string): boolean => {
    return client.type(CLUSTER).held.has(textFor(CLUSTER, authority, id));
  };
  return { rig, client, ask, holds };
}

t.test(
  'a resuming client keeps for a list what it requested by name, then requests its glob: the set waits for the glob (invariant 19)',
  (t) => {
    const { rig, client, ask, holds } = worldOfOne();
    ask(['cloud', 'g/1']);
    client.settle();
    t.ok(holds('cloud', 'g/1'));
    rig.driver.kill('c1');
    rig.list('c2', CLUSTER, []);
    client.disconnect();
    client.reconnect();
    ask(['cloud', 'LIST']);
    // The gateway moves to the second source, whose list is empty.
    rig.advance(650);
    ask(['cloud', 'g/*'], ['other', 'g/1'], ['cloud', 'LIST']);
    t.strictSame(client.settle(), [], 'the client holds a member of the glob');
    rig.advance(20_000);
    client.settle();
    t.ok(holds('cloud', 'g/1'));
    t.end();
  },
);

t.test(
  'a resource that a client keeps for a list stays when the list lacks it and its glob is not complete yet (invariant 19)',
  (t) => {
    const { rig, client, ask, holds } = worldOfOne();
    ask(['other', 'g/1']);
    client.poll();
    ask(['cloud', 'LIST']);
    rig.advance(2_500);
    ask(['other', 'g/*'], ['cloud', 'LIST']);
    client.settle();
    rig.advance(1_000);
    client.settle();
    t.ok(holds('other', 'g/1'));
    t.ok(holds('cloud', 'solo'));
    t.end();
  },
);
