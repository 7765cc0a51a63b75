/**
 * Random histories of state-of-the-world clients, upstreams and lost streams, compared with two
 * maps: existing content, and the content of each client (fast-check prints the seed).
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { bodyOf } from '../../../../../protos/resource-field.js';
import { TYPE_URL, TYPE_URL_PREFIX } from '../../../../../protos/type-urls.js';
import { FakeDirectory, nameOf } from '../../../../support/fake-directory.js';
import { Instance } from '../../../../support/session-driver.js';
import { SotwClient } from '../../../../support/sotw-driver.js';

const AUTHORITIES = ['a', 'b', 'c'];
const WHOLE: readonly string[] = [TYPE_URL.cluster, TYPE_URL.listener];
const TYPES = [...WHOLE, TYPE_URL.clusterLoadAssignment, TYPE_URL.routeConfiguration];
const IDS = ['g/1', 'g/2', 'g/3', 'solo'];
const ASKED = [...IDS, 'g/*'];
const CLIENTS = 2;
const PLACEHOLDER = 'placeholder';

const textFor = (typeUrl: string, authority: string, id: string): string =>
  `xdstp://${authority}/${typeUrl.slice(TYPE_URL_PREFIX.length)}/${id}`;

interface World {
  readonly instances: readonly [Instance, Instance];
  readonly directory: FakeDirectory;
  readonly clients: readonly SotwClient[];
}
type Model = Record<string, never>;

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

const authority = fc.constantFrom(...AUTHORITIES);
const typeUrl = fc.constantFrom(...TYPES);
const clientIndex = fc.nat({ max: CLIENTS - 1 });
const content = fc.constantFrom('v1', 'v2', 'v3');

const clientAt = (world: World, index: number): SotwClient => {
  const client = world.clients[index];
  assert.ok(client);
  return client;
};

const ask = fc
  .tuple(
    clientIndex,
    typeUrl,
    fc.uniqueArray(fc.tuple(authority, fc.constantFrom(...ASKED)), { maxLength: 5 }),
  )
  .map(([index, type, pairs]) => {
    const names = pairs.map(([a, id]) => textFor(type, a, id));
    return new Command(`${index} asks ${type} [${names.join()}]`, (world) => {
      const client = clientAt(world, index);
      // An empty first list would be the wildcard.
      if (names.length === 0 && client.type(type).names.length === 0) return;
      assert.equal(client.ask(type, ...names), undefined);
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
  for (const client of clients) if (version !== before) client.noteChanged(type, name.key);
}

const put = fc
  .tuple(authority, typeUrl, fc.constantFrom(...IDS), content)
  .map(([a, type, id, text]) => {
    const name = textFor(type, a, id);
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
    for (const client of clients) client.noteWent();
  });
});

const answer = authority.map(
  (a) =>
    new Command(`upstream ${a} answers`, ({ directory }) => {
      directory.answer((name) => name.authority === a);
    }),
);

const unreachable = authority.map(
  (a) =>
    new Command(`upstream ${a} cannot be reached`, ({ directory }) => {
      const status = { code: STATUS_CODE.unavailable, message: 'no source' };
      directory.failWaiting(status, (name) => name.authority === a);
    }),
);

const poll = clientIndex.map(
  (index) =>
    new Command(`${index} reads`, (world) => {
      clientAt(world, index).poll();
    }),
);

const acknowledge = fc.tuple(clientIndex, typeUrl, fc.boolean()).map(
  ([index, type, accepts]) =>
    new Command(`${index} ${accepts ? 'ACK' : 'NACK'} ${type}`, (world) => {
      const client = clientAt(world, index);
      if (accepts) client.ack(type);
      else client.nack(type);
    }),
);

const acknowledgeNewest = fc.tuple(clientIndex, typeUrl, fc.boolean()).map(
  ([index, type, isLate]) =>
    new Command(`${index} ACK ${type}, ${isLate ? 'late' : 'the newest'}`, (world) => {
      const client = clientAt(world, index);
      if (isLate) client.ackLate(type);
      else client.ackNewest(type);
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
      if (!client.wants(type, name)) client.ask(type, ...client.type(type).names, name);
      world.directory.answer((one) => one.authority === a);
      for (const both of contents) {
        for (const one of both) change(world, type, name, one);
        client.pollAll();
        advanceAll(world, 1_000);
      }
    });
  });

function advanceAll({ instances }: World, ms: number): void {
  for (const instance of instances) instance.advance(ms);
}

const reconnect = fc.tuple(clientIndex, fc.nat({ max: 60_000 }), fc.nat({ max: 1 })).map(
  ([index, awayMs, to]) =>
    new Command(`${index} away for ${awayMs} ms, then at ${to}`, (world) => {
      const client = clientAt(world, index);
      client.disconnect();
      advanceAll(world, awayMs);
      client.reconnect(world.instances[to === 0 ? 0 : 1]);
    }),
);

const advance = fc.nat({ max: 20_000 }).map(
  (ms) =>
    new Command(`${ms} ms pass`, (world) => {
      advanceAll(world, ms);
    }),
);

/** Checks each response against the current content of the directory. */
function watchResponses(client: SotwClient, directory: FakeDirectory): void {
  /**
   * A client that returns with a version may hold a removed cluster that it names. Its first set has that cluster, since its
   * routes may need it (GRPC 9).
   */
  const isKept = (type: string, key: string, body: Buffer): boolean => {
    const { names, version, nonce, unacknowledged } = client.type(type);
    const isReturn = version !== '' && nonce === '' && unacknowledged.length === 0;
    const last = directory.lastOf(type, key);
    const isLast = last !== undefined && bodyOf(last.field).equals(body);
    return type === TYPE_URL.cluster && isReturn && names.includes(key) && isLast;
  };
  client.check = ({ typeUrl: type, resources }, held) => {
    const keys = new Set<string>();
    for (const { name, version, body } of resources) {
      const { key } = nameOf(name ?? '');
      keys.add(key);
      if (version === PLACEHOLDER) {
        const before = held.get(key) ?? PLACEHOLDER;
        const hadNone = before.includes(key) || before === PLACEHOLDER;
        // It may have endpoints of an earlier stream for a cluster that it lacks.
        const goesWithCluster = [...client.type(TYPE_URL.cluster).held].some(
          ([cluster, content]) => content.includes(cluster) && content.includes(key),
        );
        assert.ok(hadNone || goesWithCluster, `${key} had no content (GRPC 8)`);
        continue;
      }
      const current = directory.current(type, key);
      const isCurrent = current && bodyOf(current.field).equals(body);
      const before = WHOLE.includes(type) ? held.get(key) : undefined;
      // A removed resource keeps its last content; an unknown one the content that the client has.
      const stays = before !== undefined && (!current || before === body.toString());
      assert.ok(
        isCurrent || stays || isKept(type, key, body),
        `${key} has its current, its held or its last content`,
      );
    }
    if (!WHOLE.includes(type)) return;
    for (const [key, content] of held) {
      const isPlaceholder = content.includes(key);
      if (isPlaceholder || !client.wants(type, key) || !directory.current(type, key)) continue;
      assert.ok(keys.has(key), `${key} is held, exists, and is not left out (invariant 19)`);
    }
  };
}

/** The directory answers everything, and the clients read and ACK everything. */
function quiesce(world: World): void {
  // Longer than the deletion guard waits.
  for (let round = 0; round < 8; round++) {
    world.directory.answer();
    for (const client of world.clients) client.settle();
    advanceAll(world, 17_000);
  }
}

function checkExact({ directory }: World, client: SotwClient): void {
  for (const type of TYPES) {
    const { names, held } = client.type(type);
    const expected = new Map<string, string>();
    for (const text of names) {
      const name = nameOf(text);
      const one = directory.current(type, name.key);
      for (const found of name.isGlob ? directory.membersOf(type, name) : one ? [one] : []) {
        expected.set(found.name.key, bodyOf(found.field).toString());
      }
    }
    // Deleted resources of other types stay at the client.
    const exact = WHOLE.includes(type);
    // A placeholder contains its own name; the contents here do not.
    const got = [...held].filter(
      ([key, content]) => !content.includes('xdstp:') && (exact || expected.has(key)),
    );
    assert.deepEqual(sorted(got), sorted([...expected]), 'the current content (invariant 2)');
  }
  const { order } = client.type(TYPE_URL.clusterLoadAssignment);
  for (const [key] of client.type(TYPE_URL.cluster).held) {
    const edsKey = directory.current(TYPE_URL.cluster, key)?.edsKey ?? '';
    const sent = order.get(edsKey);
    const isNamed = client.type(TYPE_URL.clusterLoadAssignment).names.includes(edsKey);
    if (
      sent === undefined ||
      !isNamed ||
      !directory.current(TYPE_URL.clusterLoadAssignment, edsKey)
    )
      continue;
    assert.ok(
      sent > (client.type(TYPE_URL.cluster).changedAt.get(key) ?? 0),
      `${edsKey} was sent after its cluster changed (ENVOY 5)`,
    );
  }
}

/** With each call, the sources of the next authority answer. */
function answerInTurn(directory: FakeDirectory): () => void {
  let calls = 0;
  return () => {
    const authority = AUTHORITIES[calls++ % AUTHORITIES.length];
    directory.answer((name) => name.authority === authority);
  };
}

const sorted = (pairs: readonly (readonly [string, string])[]) =>
  [...pairs].sort(([a], [b]) => (a < b ? -1 : 1));

t.test(
  'after quiescence every state-of-the-world client holds the existing content, and no response ever left out held content (invariants 2, 5, 19)',
  (t) => {
    const commands = fc.commands(
      [
        ask,
        ask,
        put,
        put,
        remove,
        answer,
        answer,
        unreachable,
        poll,
        poll,
        acknowledge,
        acknowledge,
        acknowledgeNewest,
        withhold,
        reconnect,
        advance,
      ],
      { maxCommands: 100, size: 'max' },
    );
    let responses = 0;
    fc.assert(
      fc.property(
        commands,
        fc.constantFrom(1, 1_000_000),
        fc.constantFrom(undefined, 5_000),
        fc.constantFrom(Infinity, 1),
        (cmds, chunkBytes, placeholderAfterMs, portion) => {
          const directory = new FakeDirectory();
          const portions = { namesPerPortion: portion, membersPerPortion: portion };
          const settings = { directory, chunkBytes, ...portions };
          const instances = [new Instance(settings), new Instance(settings)] as const;
          // Whatever the sources send between two portions of a request, the client sees one step.
          for (const instance of instances) instance.betweenPortions = answerInTurn(directory);
          const clients = Array.from(
            { length: CLIENTS },
            () => new SotwClient(instances[0], { placeholderAfterMs }),
          );
          for (const client of clients) watchResponses(client, directory);
          const world = { instances, directory, clients };
          fc.modelRun(() => ({ model: {}, real: world }), cmds);
          quiesce(world);
          for (const client of clients) {
            checkExact(world, client);
            assert.equal(client.poll(), undefined, 'nothing is left to send');
            responses += client.responses;
          }
        },
      ),
      {
        numRuns: Number(process.env['FC_RUNS'] ?? 300),
        ...(process.env['FC_SEED'] ? { seed: Number(process.env['FC_SEED']) } : {}),
      },
    );
    t.ok(responses > 1_000, `${responses} responses were checked`);
    t.end();
  },
);
