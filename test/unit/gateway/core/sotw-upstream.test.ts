/**
 * Goal: no response of listeners or clusters leaves out what a client holds and no source deleted,
 * whatever the sources, the map and the clients go through (invariants 3, 17, 19).
 * Method: random histories over the real upstream core and cache, servers in memory, and a model
 * client that keeps the books (fast-check prints the seed).
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { ResourceCache } from '../../../../gateway/core/resource-cache.js';
import { TYPE_URL, TYPE_URL_PREFIX } from '../../../../protos/type-urls.js';
import { listBytes, textEntry } from '../../../support/collection-messages.js';
import { FederationDriver, mapOf, nameOf } from '../../../support/federation-driver.js';
import { SotwClient } from '../../../support/sotw-driver.js';
import { encode } from '../../protos/envoy-messages.js';

let lines: string[] = [];
let failed: string[] = [];
const trace = (...parts: readonly unknown[]): void => {
  lines.push(parts.join(' '));
};
const WHOLE: readonly string[] = [TYPE_URL.cluster, TYPE_URL.listener];
const TYPES = [...WHOLE, TYPE_URL.clusterLoadAssignment];
const IDS = ['g/1', 'g/2', 'g/3', 'solo'];
const ASKED = [...IDS, 'g/*', 'LIST'];
const SOURCES = ['c1', 'c2', 'o', 'x'];
const AUTHORITY_OF: Record<string, string> = { c1: 'cloud', c2: 'cloud', o: 'onprem', x: 'other' };
const CLIENTS = 2;

const textFor = (typeUrl: string, authority: string, id: string): string => {
  const type = typeUrl.slice(TYPE_URL_PREFIX.length);
  if (id === 'LIST') return `xdstp://${authority}/${type}Collection/all`;
  return `xdstp://${authority}/${type}/${id}`;
};

function contentOf(typeUrl: string, name: string, mark: string): Uint8Array {
  const endpoints = name.replace(
    TYPE_URL.cluster.slice(TYPE_URL_PREFIX.length),
    TYPE_URL.clusterLoadAssignment.slice(TYPE_URL_PREFIX.length),
  );
  if (typeUrl === TYPE_URL.cluster)
    return encode('envoy.config.cluster.v3.Cluster', {
      name,
      alt_stat_name: `@${mark}@`,
      type: 3,
      eds_cluster_config: { service_name: endpoints },
    });
  if (typeUrl === TYPE_URL.listener)
    return encode('envoy.config.listener.v3.Listener', { name, stat_prefix: `@${mark}@` });
  return encode('envoy.config.endpoint.v3.ClusterLoadAssignment', {
    cluster_name: name,
    endpoints: [{ locality: { region: `@${mark}@` } }],
  });
}
const markOf = (content: string): string => /@(\w+)@/.exec(content)?.[1] ?? `?${content}`;

const FULL = mapOf({
  authorities: {
    cloud: {
      sources: ['c1', 'c2'],
      alternatives: [{ authority: 'onprem', fromPrefix: '', toPrefix: '' }],
      failover: { holdMs: 5_000, holdMaxMs: 10_000 },
    },
    onprem: { sources: ['o'] },
    other: { sources: ['x'] },
  },
});
const WITHOUT_OTHER = mapOf({
  authorities: {
    cloud: {
      sources: ['c1', 'c2'],
      alternatives: [{ authority: 'onprem', fromPrefix: '', toPrefix: '' }],
      failover: { holdMs: 5_000, holdMaxMs: 10_000 },
    },
    onprem: { sources: ['o'] },
  },
});

class Rig {
  driver: FederationDriver;
  cache: ResourceCache;
  map = FULL;
  readonly settings;
  /** By authority, type and name: some source of it had it deleted, or never had it. */
  readonly deleted = new Set<string>();
  readonly clients: SotwClient[] = [];
  marks = 0;
  stalls: { readonly untilMs: number; readonly end: () => void }[] = [];

  constructor(settings: { readonly chunkBytes: number; readonly unsubscribedLingerMs: number }) {
    this.settings = { maxNames: 1_000, ackDeadlineMs: 16_000, ...settings };
    [this.driver, this.cache] = this.#start();
  }

  get nowMs(): number {
    return this.driver.nowMs;
  }

  #start(): [FederationDriver, ResourceCache] {
    const driver = new FederationDriver(this.map);
    const cache = new ResourceCache(
      {
        watch: (typeUrl, name, watcher) => {
          driver.federation.watch(typeUrl, name, watcher, driver.nowMs);
        },
        unwatch: (typeUrl, name, watcher) => {
          driver.federation.unwatch(typeUrl, name, watcher, driver.nowMs);
        },
      },
      {
        tombstonesPerCollection: 100,
        tombstoneMaxAgeMs: 3_600_000,
        unsubscribedLingerMs: this.settings.unsubscribedLingerMs,
      },
    );
    return [driver, cache];
  }

  restart(): void {
    for (const client of this.clients) client.disconnect();
    const { servers, nowMs } = this.driver;
    [this.driver, this.cache] = this.#start();
    this.driver.nowMs = nowMs;
    for (const [name, server] of servers) this.driver.servers.set(name, server);
    for (const client of this.clients) client.reconnect();
    this.driver.pump();
  }

  advance(ms: number): void {
    for (let left = ms; left > 0; left -= 500) {
      this.driver.advance(Math.min(left, 500));
      // Longer than that silence counts as an answer.
      for (const { untilMs, end } of this.stalls) if (untilMs <= this.nowMs) end();
      this.stalls = this.stalls.filter(({ untilMs }) => untilMs > this.nowMs);
      this.cache.handleTimer(this.nowMs);
      this.driver.pump();
    }
  }

  /** Publishes or deletes at a source. */
  put(source: string, typeUrl: string, id: string): void {
    const name = textFor(typeUrl, AUTHORITY_OF[source] ?? '', id);
    this.driver.publish(source, name, contentOf(typeUrl, name, `m${++this.marks}`), typeUrl);
  }
  list(source: string, typeUrl: string, ids: readonly string[]): void {
    const authority = AUTHORITY_OF[source] ?? '';
    const entries = ids.map((id) =>
      textEntry(textFor(typeUrl, authority === 'other' ? 'other' : 'cloud', id)),
    );
    this.driver.publish(
      source,
      textFor(typeUrl, authority, 'LIST'),
      listBytes(...entries),
      `${typeUrl}Collection`,
    );
  }
}

interface World {
  readonly rig: Rig;
}
type Model = Record<string, never>;
class Command implements fc.Command<Model, World> {
  constructor(
    readonly text: string,
    readonly act: (rig: Rig) => void,
  ) {}
  check(): boolean {
    return true;
  }
  run(_model: Model, { rig }: World): void {
    if (process.env['TRACE']) trace('>>', this.text);
    this.act(rig);
  }
  toString(): string {
    return this.text;
  }
}

const typeUrl = fc.constantFrom(...TYPES);
const source = fc.constantFrom(...SOURCES);
const clientIndex = fc.nat({ max: CLIENTS - 1 });
const at = (rig: Rig, index: number): SotwClient => rig.clients[index] as SotwClient;
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
      // Only ever longer, so that it deletes nothing; the last one counts.
      rig.list(s, type, ids);
      for (const id of [...IDS]) rig.deleted.add(`list ${AUTHORITY_OF[s]} ${type} ${id}`);
    }),
);
const remove = fc.tuple(source, typeUrl, fc.constantFrom(...IDS)).map(
  ([s, type, id]) =>
    new Command(`${s} deletes ${short(type)} ${id}`, (rig) => {
      const authority = AUTHORITY_OF[s] ?? '';
      if (!rig.driver.server(s).get(type, textFor(type, authority, id))) return;
      rig.deleted.add(`${authority} ${type} ${id}`);
      rig.driver.delete(s, textFor(type, authority, id), type);
    }),
);
const fault = fc.tuple(source, fc.constantFrom('kill', 'hole', 'revive', 'cut', 'revive')).map(
  ([s, what]) =>
    new Command(`${what} ${s}`, (rig) => {
      if (what === 'kill') rig.driver.kill(s);
      else if (what === 'hole') rig.driver.server(s).reachability = 'black_hole';
      else if (what === 'cut') rig.driver.cut(s);
      else rig.driver.revive(s);
      rig.driver.pump();
    }),
);
const stall = fc.tuple(source, typeUrl, fc.constantFrom(...ASKED.slice(0, 5)), fc.boolean()).map(
  ([s, type, id, on]) =>
    new Command(`${s} ${on ? 'stalls' : 'answers'} ${short(type)} ${id}`, (rig) => {
      const name = textFor(type, AUTHORITY_OF[s] ?? '', id);
      const server = rig.driver.server(s);
      if (on) {
        server.stalled.add(name);
        rig.stalls.push({
          untilMs: rig.nowMs + 10_000,
          end: () => {
            unstall(rig, s, type, name);
          },
        });
        return;
      }
      unstall(rig, s, type, name);
    }),
);
function unstall(rig: Rig, s: string, type: string, name: string): void {
  const server = rig.driver.server(s);
  if (
    !server.stalled.delete(name) ||
    !rig.driver.isConnected(s) ||
    !server.stream.subscribed(type).includes(name)
  )
    return;
  answerStalled(rig, s, type, name);
}
function answerStalled(rig: Rig, s: string, type: string, name: string): void {
  const server = rig.driver.server(s);
  const members = name.endsWith('/*')
    ? server.names(type).filter((one) => one.startsWith(name.slice(0, -1)))
    : server.get(type, name)
      ? [name]
      : [];
  server.stream.push(type, members, members.length > 0 ? [] : [name]);
  rig.driver.pump();
}
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
    }),
);

function watchResponses(rig: Rig, client: SotwClient, seen: Map<string, string>): void {
  client.check = (response, held) => {
    const { typeUrl: type, resources } = response;
    if (process.env['TRACE'])
      trace(
        '   ',
        rig.nowMs,
        rig.clients.indexOf(client),
        short(type),
        response.versionInfo,
        resources.map(({ name, body }) => `${name?.slice(8)}=${markOf(body.toString())}`).join(' '),
        JSON.stringify(response.errors),
      );
    if (!WHOLE.includes(type)) return;
    const keys = new Set(resources.map(({ name }) => nameOf(name ?? '').key));
    for (const key of held.keys()) {
      if (keys.has(key) || !client.wants(type, key)) continue;
      const { authority, id } = nameOf(key);
      if (markOf(held.get(key) ?? '').startsWith('?')) continue;
      const mayGo = authority === 'cloud' ? ['cloud', 'onprem'] : [authority];
      const names = client.type(type).names;
      const byListAlone = !names.some(
        (text) =>
          !text.includes('Collection/') &&
          (text === key || (text.endsWith('/*') && key.startsWith(text.slice(0, -1)))),
      );
      if (byListAlone && mayGo.some((a) => rig.deleted.has(`list ${a} ${type} ${id}`))) continue;
      assert.ok(
        mayGo.some((a) => rig.deleted.has(`${a} ${type} ${id}`)),
        `${key} is left out, and nobody deleted it (invariant 19)`,
      );
    }
    const set = resources
      .map(({ name, version }) => `${name} ${version}`)
      .sort()
      .join();
    const before = seen.get(`${type} ${response.versionInfo}`);
    assert.ok(
      before === undefined || before === set,
      `version ${response.versionInfo} is of one set (GRPC 6): ${before} / ${set}`,
    );
    seen.set(`${type} ${response.versionInfo}`, set);
  };
}

function quiesce(rig: Rig): void {
  for (const s of SOURCES) {
    rig.driver.server(s).stalled.clear();
    rig.driver.revive(s);
    // What was stalled is forgotten with the stream.
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

function checkExact(rig: Rig, client: SotwClient): void {
  for (const type of TYPES) {
    const { names, held } = client.type(type);
    const expected = new Map<string, string>();
    const sourceOf = (authority: string): string => (authority === 'cloud' ? 'c1' : 'x');
    const add = (key: string): void => {
      const server = rig.driver.server(sourceOf(nameOf(key).authority));
      const one = server.get(type, key);
      if (one) expected.set(key, markOf(Buffer.from(one.body).toString()));
    };
    if (names.some((text) => text.includes('Collection/'))) continue;
    for (const text of names) {
      if (!text.endsWith('/*')) add(text);
      else for (const id of IDS) if (id.startsWith('g/')) add(text.replace('g/*', id));
    }
    const got = [...held]
      .filter(
        ([key, content]) =>
          !markOf(content).startsWith('?') &&
          client.wants(type, key) &&
          (WHOLE.includes(type) || expected.has(key)),
      )
      .map(([key, content]) => [key, markOf(content)] as const);
    assert.deepEqual(
      sorted(got),
      sorted([...expected]),
      `the current content of ${type} (invariant 2)`,
    );
  }
}
const sorted = (pairs: readonly (readonly [string, string])[]) =>
  [...pairs].sort(([a], [b]) => (a < b ? -1 : 1));

t.test(
  'what a client holds and no source deleted is in every response of listeners and clusters (invariants 2, 3, 17, 19)',
  (t) => {
    let responses = 0;
    const commands = fc.commands(
      [
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
        settle,
        settle,
        settle,
        reconnect,
        advance,
        advance,
        restart,
        reload,
      ],
      { maxCommands: 100, size: 'max' },
    );
    try {
      fc.assert(
        fc.property(
          commands,
          fc.constantFrom(1, 1_000_000),
          fc.constantFrom(undefined, 5_000),
          fc.constantFrom(0, 30_000),
          (cmds, chunkBytes, placeholderAfterMs, unsubscribedLingerMs) => {
            lines = [];
            try {
              const rig = new Rig({ chunkBytes, unsubscribedLingerMs });
              for (const s of SOURCES)
                for (const type of TYPES) {
                  for (const id of IDS) if (s !== 'c2' || id !== 'solo') rig.put(s, type, id);
                  rig.list(s, type, ['solo', 'g/*']);
                }
              const seen = new Map<string, string>();
              for (let i = 0; i < CLIENTS; i++) {
                const client = new SotwClient(rig, { placeholderAfterMs });
                const base = client.wants.bind(client);
                client.wants = (type, key) => {
                  if (base(type, key)) return true;
                  const { authority } = nameOf(key);
                  return client.type(type).names.includes(textFor(type, authority, 'LIST'));
                };
                rig.clients.push(client);
                watchResponses(rig, client, seen);
              }
              fc.modelRun(() => ({ model: {}, real: { rig } }), cmds);
              if (process.env['TRACE']) trace('>> quiesce');
              quiesce(rig);
              for (const client of rig.clients) {
                checkExact(rig, client);
                responses += client.responses;
              }
            } catch (e) {
              failed = lines;
              throw e;
            }
          },
        ),
        {
          numRuns: Number(process.env['FC_RUNS'] ?? 150),
          ...(process.env['FC_SEED'] ? { seed: Number(process.env['FC_SEED']) } : {}),
          ...(process.env['FC_PATH'] ? { path: process.env['FC_PATH'], endOnFailure: false } : {}),
        },
      );
    } finally {
      for (const line of failed) console.log(line);
    }
    t.ok(responses > 1_000, `${responses} responses were looked at`);
    t.end();
  },
);
