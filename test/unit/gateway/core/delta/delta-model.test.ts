/**
 * Random histories of clients, upstreams and lost streams against the client side of the gateway,
 * compared with two maps: existing content, and the content sent to each client (fast-check prints
 * the seed).
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { bodyOf } from '../../../../../protos/resource-field.js';
import { TYPE_URL, TYPE_URL_PREFIX } from '../../../../../protos/type-urls.js';
import { FakeDirectory, nameOf } from '../../../../support/fake-directory.js';
import { Instance, type ConnectedClient } from '../../../../support/session-driver.js';

const AUTHORITIES = ['a', 'b', 'c'];
const TYPES = [
  TYPE_URL.cluster,
  TYPE_URL.clusterLoadAssignment,
  TYPE_URL.listener,
  TYPE_URL.routeConfiguration,
];
const IDS = ['g/1', 'g/2', 'g/3', 'solo'];
const ASKED = [...IDS, 'g/*', '*'];

const textFor = (typeUrl: string, authority: string, id: string): string =>
  `xdstp://${authority}/${typeUrl.slice(TYPE_URL_PREFIX.length)}/${id}`;

interface World {
  readonly instances: readonly [Instance, Instance];
  readonly directory: FakeDirectory;
  readonly clients: readonly ConnectedClient[];
}
type Model = Record<string, never>;

/** Receives one response, if any, and checks it against the current content of the directory. */
function pollChecked({ directory }: World, client: ConnectedClient): boolean {
  const response = client.poll();
  if (!response) return false;
  const { typeUrl } = response;
  for (const { name, body } of response.resources) {
    const { key } = nameOf(name);
    assert.ok(client.model.wants(typeUrl, key), `${name} was asked for`);
    const current = directory.current(typeUrl, key);
    assert.ok(
      current && bodyOf(current.field).equals(body ?? NOTHING),
      `${name} is sent as it is now (invariant 1)`,
    );
  }
  for (const text of response.removed) {
    const name = nameOf(text);
    const there = name.isGlob
      ? directory.membersOf(typeUrl, name).length > 0
      : directory.current(typeUrl, name.key) !== undefined;
    assert.ok(!there, `${text} is removed because it is not there (invariant 3)`);
  }
  return true;
}

function advanceAll({ instances }: World, ms: number): void {
  for (const instance of instances) instance.advance(ms);
}

const NOTHING = Buffer.alloc(0);

class Command implements fc.Command<Model, World> {
  readonly #text: string;
  readonly #run: (world: World) => void;
  constructor(text: string, run: (world: World) => void) {
    this.#text = text;
    this.#run = run;
  }
  check(): boolean {
    return true;
  }
  run(_model: Model, world: World): void {
    this.#run(world);
  }
  toString(): string {
    return this.#text;
  }
}

const CLIENTS = 3;
const RESUMES_MEMBERS = 1;
const authority = fc.constantFrom(...AUTHORITIES);
const typeUrl = fc.constantFrom(...TYPES);
const clientIndex = fc.nat({ max: CLIENTS - 1 });
const content = fc.constantFrom('v1', 'v2', 'v3');
const someNames = fc
  .uniqueArray(fc.tuple(authority, fc.constantFrom(...ASKED)), { minLength: 1, maxLength: 4 })
  .map((pairs) => (type: string) => pairs.map(([a, id]) => textFor(type, a, id)));

const clientAt = (world: World, index: number): ConnectedClient => {
  const client = world.clients[index];
  assert.ok(client);
  return client;
};

const changeSubscription = fc
  .tuple(clientIndex, typeUrl, someNames, someNames, fc.constantFrom('add', 'drop', 'both'))
  .map(([index, type, adds, drops, how]) => {
    const add = how === 'drop' ? [] : adds(type);
    const drop = how === 'add' ? [] : drops(type);
    return new Command(`${index} +[${add.join()}] -[${drop.join()}]`, (world) => {
      const client = clientAt(world, index);
      const known = drop.filter((text) => client.model.type(type).subscribed.has(nameOf(text).key));
      if (add.length + known.length === 0) return;
      assert.equal(client.send(client.model.change(type, add, known)), undefined);
    });
  });

function change(
  { directory, clients }: World,
  type: string,
  text: string,
  to: string,
  eds?: string,
): void {
  const before = directory.current(type, text)?.version;
  const { name, version } = directory.put(type, text, to, eds);
  for (const { model } of clients) if (version !== before) model.noteChanged(type, name.key);
}

const put = fc
  .tuple(authority, typeUrl, fc.constantFrom(...IDS), content)
  .map(([a, type, id, text]) => {
    const name = textFor(type, a, id);
    // A cluster takes its endpoints from the assignment of the same id.
    const eds =
      type === TYPE_URL.cluster ? textFor(TYPE_URL.clusterLoadAssignment, a, id) : undefined;
    return new Command(`put ${name} ${text}`, (world) => {
      change(world, type, name, text, eds);
    });
  });

const remove = fc.tuple(authority, typeUrl, fc.constantFrom(...IDS)).map(([a, type, id]) => {
  const name = textFor(type, a, id);
  return new Command(`remove ${name}`, ({ directory, clients }) => {
    directory.remove(type, name);
    for (const { model } of clients) model.noteWent(type, nameOf(name).key);
  });
});

const answer = authority.map(
  (a) =>
    new Command(`upstream ${a} answers`, ({ directory }) => {
      directory.answer((name) => name.authority === a);
    }),
);

const poll = clientIndex.map(
  (index) =>
    new Command(`${index} reads`, (world) => {
      pollChecked(world, clientAt(world, index));
    }),
);

const acknowledge = fc.tuple(clientIndex, typeUrl, fc.boolean()).map(
  ([index, type, accepts]) =>
    new Command(`${index} ${accepts ? 'ACK' : 'NACK'} ${type}`, (world) => {
      const client = clientAt(world, index);
      const request = accepts ? client.model.ack(type) : client.model.nack(type);
      if (request) client.send(request);
    }),
);

const acknowledgeNewest = fc.tuple(clientIndex, typeUrl).map(
  ([index, type]) =>
    new Command(`${index} ACK ${type}, the newest first`, (world) => {
      const client = clientAt(world, index);
      const request = client.model.ackNewest(type);
      if (request) client.send(request);
    }),
);

/** The client keeps reading while one name changes, but withholds ACKs, as while clusters warm. */
const withhold = fc
  .tuple(
    clientIndex,
    authority,
    typeUrl,
    fc.constantFrom(...IDS),
    fc.array(fc.tuple(content, content), { maxLength: 8 }),
  )
  .map(([index, a, type, id, contents]) => {
    const name = textFor(type, a, id);
    return new Command(`${index} reads ${name} as it changes: ${contents.join(' ')}`, (world) => {
      const client = clientAt(world, index);
      if (!client.model.wants(type, name)) client.send(client.model.change(type, [name]));
      world.directory.answer((one) => one.authority === a);
      for (const both of contents) {
        for (const one of both) change(world, type, name, one);
        while (pollChecked(world, client));
        advanceAll(world, 1_000);
      }
    });
  });

const reconnect = fc.tuple(clientIndex, fc.nat({ max: 60_000 })).map(
  ([index, awayMs]) =>
    new Command(`${index} away for ${awayMs} ms`, (world) => {
      const client = clientAt(world, index);
      client.disconnect();
      advanceAll(world, awayMs);
      client.reconnect();
    }),
);

/** Envoy stays at its instance: only that instance remembers the removed members. */
const move = fc.nat({ max: 1 }).map(
  (to) =>
    new Command(`${RESUMES_MEMBERS} moves to instance ${to}`, (world) => {
      const client = clientAt(world, RESUMES_MEMBERS);
      client.disconnect();
      client.reconnect(world.instances[to]);
    }),
);

const unreachable = authority.map(
  (a) =>
    new Command(`upstream ${a} cannot be reached`, ({ directory }) => {
      const status = { code: STATUS_CODE.unavailable, message: 'no source' };
      directory.failWaiting(status, (name) => name.authority === a);
    }),
);

const leave = fc
  .tuple(
    fc.nat({ max: 60_000 }),
    fc.array(put, { maxLength: 2 }),
    fc.array(remove, { maxLength: 2 }),
  )
  .map(
    ([awayMs, puts, removes]) =>
      new Command(`all away for ${awayMs} ms: ${[...puts, ...removes].join('; ')}`, (world) => {
        for (const client of world.clients) client.disconnect();
        advanceAll(world, awayMs);
        for (const command of [...puts, ...removes]) command.run({}, world);
        for (const client of world.clients) client.reconnect();
      }),
  );

const advance = fc.nat({ max: 20_000 }).map(
  (ms) =>
    new Command(`${ms} ms pass`, (world) => {
      advanceAll(world, ms);
    }),
);

/** The directory answers everything, and the clients read and ACK everything. */
function quiesce(world: World): void {
  // Longer than the deletion guard waits. After a response more may follow: small ones delete one cluster at a time, some 50 ms apart.
  let total = 0;
  for (let rounds = 8; rounds > 0; rounds--) {
    assert.ok(total++ < 100, 'quiescence comes');
    world.directory.answer();
    for (const client of world.clients) {
      for (let steps = 0; ; steps++) {
        assert.ok(steps < 1_000, 'the exchange ends');
        if (pollChecked(world, client)) {
          rounds = Math.max(rounds, 5);
          continue;
        }
        const request = client.model.ack();
        if (!request) break;
        client.send(request);
      }
    }
    advanceAll(world, 17_000);
  }
}

/** Invariant 2, and the assignment behind each changed cluster (ENVOY 5). */
function checkExact({ directory }: World, client: ConnectedClient): void {
  for (const type of TYPES) {
    const { subscribed, offered } = client.model.type(type);
    const expected = new Map<string, string>();
    for (const key of subscribed.keys()) {
      const name = nameOf(key);
      const one = directory.current(type, key);
      for (const found of name.isGlob ? directory.membersOf(type, name) : one ? [one] : []) {
        expected.set(found.name.key, bodyOf(found.field).toString());
      }
    }
    const got = new Map([...offered].map(([key, held]) => [key, held.content]));
    assert.deepEqual(sorted(got), sorted(expected), 'exactly the current content (invariant 2)');
  }
}

function checkEdges({ directory }: World, client: ConnectedClient): void {
  const assignments = client.model.type(TYPE_URL.clusterLoadAssignment);
  for (const [key, cluster] of client.model.type(TYPE_URL.cluster).offered) {
    const edsKey = directory.current(TYPE_URL.cluster, key)?.edsKey ?? '';
    const assignment = assignments.offered.get(edsKey);
    if (!assignments.subscribed.has(edsKey) || !assignment) continue;
    assert.ok(
      assignment.order > cluster.changedAt,
      `${edsKey} was sent after its cluster changed (ENVOY 5)`,
    );
  }
}

/** In one step, or name by name. */
const portions = fc.constantFrom(Infinity, 1);

/** With each call, the sources of the next authority answer. */
function answerInTurn(directory: FakeDirectory): () => void {
  let calls = 0;
  return () => {
    const authority = AUTHORITIES[calls++ % AUTHORITIES.length];
    directory.answer((name) => name.authority === authority);
  };
}

const sorted = (map: ReadonlyMap<string, string>): readonly (readonly [string, string])[] =>
  [...map].sort(([a], [b]) => (a < b ? -1 : 1));

t.test(
  'after quiescence every client holds exactly the existing content of its subscriptions, whatever happened before (invariants 1, 2, 3, 5, 16, 18)',
  (t) => {
    const commands = fc.commands(
      [
        changeSubscription,
        changeSubscription,
        put,
        put,
        remove,
        answer,
        poll,
        poll,
        acknowledge,
        acknowledgeNewest,
        withhold,
        reconnect,
        leave,
        move,
        unreachable,
        advance,
      ],
      { maxCommands: 100, size: 'max' },
    );
    let responses = 0;
    fc.assert(
      fc.property(commands, fc.boolean(), fc.constantFrom(1, 1_000_000), portions, (...history) => {
        const [cmds, absent, chunk, namesPerPortion] = history;
        const directory = new FakeDirectory();
        const own = { silentAbsentRoutes: absent, namesPerPortion };
        const settings = { directory, chunkBytes: chunk, ...own };
        const instances = [new Instance(settings), new Instance(settings)] as const;
        // Whatever the sources send between two portions of a request, the client sees one step.
        for (const instance of instances) instance.betweenPortions = answerInTurn(directory);
        const clients = Array.from({ length: CLIENTS }, (_, index) =>
          instances[0].connect({
            resumesMembers: index === RESUMES_MEMBERS,
            maxUnacknowledged: chunk === 1 ? Infinity : 4,
          }),
        );
        const world = { instances, directory, clients };
        fc.modelRun(() => ({ model: {}, real: world }), cmds);
        quiesce(world);
        for (const client of clients) {
          checkExact(world, client);
          checkEdges(world, client);
          assert.equal(client.poll(), undefined, 'nothing is left to send');
          responses += client.model.responses;
        }
      }),
      // For a longer search, and to repeat a reported seed.
      {
        numRuns: Number(process.env['FC_RUNS'] ?? 300),
        ...(process.env['FC_SEED'] ? { seed: Number(process.env['FC_SEED']) } : {}),
      },
    );
    t.ok(responses > 1_000, `${responses} responses were checked`);
    t.end();
  },
);
