/**
 * Goal: instances of one cluster exchange hints over NATS, and whatever happens to NATS, clients
 * are served as without it (docs/INSTANCES.md).
 * Method: two gateways as processes of their own, each with clients that record their responses,
 * real control planes, and a real nats-server that is killed, frozen and cut off.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from 'nats';
import t from 'tap';

import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import { TYPE_URLS } from '../support/mesh.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { Gateway } from './peers/gateway.js';
import {
  agreeing,
  agreeLimitMs,
  churn,
  clientOf,
  connected,
  holding,
  ids,
  median,
  nameOf,
  readiness,
  resource,
  serving,
  skipWithoutPair as skip,
  startPair,
  summary,
} from './peers/nats-pair.js';
import { NatsServer } from './peers/nats-server.js';
import { cloud, quickTimers } from './peers/rig.js';

t.setTimeout(120_000);

const noOpenssl = await opensslMissing();
const typeUrl = TYPE_URLS.assignment;
/**
 * Only hints have effects: the next connect attempt is hours away. The backoff has full jitter, so one
 * of ten minutes ends within the first second in one run of 600.
 */
const patient = { ...quickTimers, backoff_base: '24h', backoff_max: '24h' };

t.test(
  'a change seen at A is requested at B, whose source waits out a backoff',
  { skip },
  async (t) => {
    const pair = await startPair(t, { timers: patient });
    const { plane, planeProxy, a, b } = pair;
    await tellingLogs([a, b], async () => {
      await plane.setResources([resource('x', 1)]);
      const [atA, atB] = [clientOf(t, a), clientOf(t, b)];
      for (const client of [atA, atB]) client.subscribe(typeUrl, [nameOf('x')]);
      await until('both hold it', () => atA.held(typeUrl).size + atB.held(typeUrl).size === 2);
      const before = atB.held(typeUrl).get(nameOf('x'));
      const attempts = (): Promise<number> => b.metric('tributary_source_attempts_total');
      const attemptsBefore = await attempts();
      await planeProxy.setMode('refuse');
      // The first attempt after a loss comes within a second, whatever the backoff.
      await until('B tried again in vain', async () => (await attempts()) > attemptsBefore);
      await until('B has no source', async () => {
        return (await b.metric('tributary_source_connected')) === 0;
      });
      await planeProxy.setMode('pass');
      const startedMs = performance.now();
      await plane.patchResources([resource('x', 2)]);
      await until('B has the change', () => atB.held(typeUrl).get(nameOf('x')) !== before);
      t.comment(`${Math.round(performance.now() - startedMs)} ms from the change to B's client`);
      t.ok(performance.now() - startedMs < 10_000, 'long before its own timers');
      t.ok((await b.metric('tributary_revalidations_total', { reason: 'hint' })) >= 1);
      await agreeing(pair);
    });
  },
);

t.test('a name that did not exist is requested again at B when A has it', { skip }, async (t) => {
  // Two replicas of a control plane; that of B answers requests, but announces no changes.
  const replicas = await Promise.all([ScriptedUpstream.start(), ScriptedUpstream.start()]);
  t.teardown(() => Promise.all(replicas.map((one) => one.stop())));
  const [ofA, ofB] = replicas;
  const ports = [ofA.port, ofB.port] as const;
  const { a, b } = await startPair(t, { ports });
  await tellingLogs([a, b], async () => {
    const [atA, atB] = [clientOf(t, a), clientOf(t, b)];
    for (const client of [atA, atB]) client.subscribe(typeUrl, [nameOf('x')]);
    await until('both got its removal', () =>
      [atA, atB].every((client) => client.removals(typeUrl).length === 1),
    );
    const body = Buffer.concat([Buffer.from([0x0a, 1]), Buffer.from('x')]);
    ofB.putQuietly(typeUrl, nameOf('x'), body);
    ofA.put(typeUrl, nameOf('x'), body);
    const startedMs = performance.now();
    await until('B has it', () => atB.held(typeUrl).size === 1);
    t.comment(`${Math.round(performance.now() - startedMs)} ms after it came to be`);
    t.strictSame([...atB.held(typeUrl)], [...atA.held(typeUrl)]);
  });
});

t.test('an invalidation at A reaches B', { skip }, async (t) => {
  const { plane, a, b } = await startPair(t);
  await plane.setResources([resource('x', 1)]);
  const clients = [clientOf(t, a), clientOf(t, b)];
  for (const client of clients) client.subscribe(typeUrl, [nameOf('x')]);
  await until('both hold it', () => clients.every((one) => one.held(typeUrl).size === 1));
  const asked = async (): Promise<number> =>
    (await plane.streams()).streams.filter(
      ({ types }) => types[typeUrl]?.subscribed.filter((name) => name === nameOf('x')).length === 2,
    ).length;
  t.equal(await asked(), 0);
  const answer = await a.order(`/invalidate?name=${encodeURIComponent(nameOf('x'))}`);
  t.match(answer, { askedHere: true, toldOthers: true });
  await until('the control plane got a second request of both', async () => (await asked()) === 2);
  const before = await b.metric('tributary_revalidations_total', { reason: 'invalidation' });
  await b.order(`/invalidate?authority=${cloud}`);
  await until('A received an invalidation of B', async () => {
    return (await a.metric('tributary_revalidations_total', { reason: 'invalidation' })) >= 2;
  });
  t.ok((await b.metric('tributary_revalidations_total', { reason: 'invalidation' })) > before);
  for (const client of clients) {
    t.equal(client.bodies(typeUrl).length, 1, 'clients see no change');
    t.strictSame(client.removals(typeUrl), []);
  }
});

t.test(
  'cut off from NATS and from its source, B agrees soon after NATS is back',
  { skip },
  async (t) => {
    // Its own connect attempts are minutes away: only hints of A can bring it up to date.
    const pair = await startPair(t, { timers: patient });
    const { plane, planeProxy, natsProxy, a, b } = pair;
    await tellingLogs([a, b], async () => {
      const [atA, atB] = await serving(t, pair);
      await natsProxy.setMode('refuse');
      await planeProxy.setMode('refuse');
      await until('B receives from no instance', async () => {
        return (await b.metric('tributary_peers_connected')) === 0;
      });
      await plane.patchResources(ids.map((id) => resource(id, 2)));
      await until('A has the changes', () => atA!.bodies(typeUrl).length === 2 * ids.length);
      t.equal(atB!.bodies(typeUrl).length, ids.length, 'B has none of them');
      t.notSame(await holding(a), await holding(b));
      await planeProxy.setMode('pass');
      await natsProxy.setMode('pass');
      await connected(pair);
      const startedMs = performance.now();
      await agreeing(pair, agreeLimitMs);
      t.comment(
        `agreed ${Math.round(performance.now() - startedMs)} ms after B was connected again`,
      );
    });
  },
);

t.test('a NATS server that hangs delays no client and no shutdown', { skip }, async (t) => {
  const pair = await startPair(t);
  const { nats, a, b } = pair;
  const clients = await serving(t, pair);
  nats.freeze();
  t.teardown(() => {
    nats.thaw();
  });
  const hung = await churn(pair, clients, ids, performance.now() + 2_000);
  t.comment(`changes at both: ${summary(hung)} while NATS hangs`);
  t.ok(median(hung) < 200);
  for (const each of [a, b]) t.equal(await readiness(each), true);
  const startedMs = performance.now();
  for (const client of clients) client.close();
  await a.stop();
  t.ok(performance.now() - startedMs < 8_000);
  t.equal(a.exited, 'exit code 0');
});

t.test('forged messages at full speed change no content of clients', { skip }, async (t) => {
  const pair = await startPair(t);
  const { nats, a, b } = pair;
  const clients = await serving(t, pair);
  const forger = await connect({ servers: nats.url });
  t.teardown(() => forger.close());
  const subject = 'tributary.test.hint';
  for (let round = 0; round < 2_000; round++) {
    const changes = ids.map((id) => [
      typeUrl,
      nameOf(id),
      round % 3 === 0 ? null : `forged ${round}`,
    ]);
    forger.publish(subject, JSON.stringify({ v: 1, from: `forger ${round}`, changes }));
    forger.publish(subject, JSON.stringify({ v: 1, from: 'forger', authority: cloud }));
    forger.publish(subject, new Uint8Array([round]));
  }
  await forger.flush();
  await until('all messages were received', async () => {
    return (await b.metric('tributary_peer_messages_received_total')) >= 6_000;
  });
  await churn(pair, clients, ids, performance.now() + 3_000);
  for (const client of clients) {
    t.strictSame(client.removals(typeUrl), []);
    t.equal(client.held(typeUrl).size, ids.length);
  }
  for (const each of [a, b]) {
    const asked = await each.metric('tributary_revalidations_total');
    t.ok(asked <= 5 * ids.length, `${asked} questions for 2,000 rounds of ${ids.length} names`);
    t.ok((await each.metric('tributary_peer_messages_ignored_total')) > 1_000);
    t.equal(await each.metric('tributary_handler_errors_total'), 0);
  }
  await agreeing(pair);
});

t.test(
  'an instance needs only TLS, a user of its own, and one subject',
  { skip: skip || noOpenssl },
  async (t) => {
    const authority = await createCertificateAuthority();
    t.teardown(() => authority.remove());
    const server = await authority.issue({ name: 'nats', dnsNames: ['localhost'] });
    const instance = await authority.issue({ name: 'instance' });
    const password = join(authority.directory, 'password');
    await writeFile(password, 'wrong\n');
    const nats = await NatsServer.start({
      config: `
      tls { cert_file: "${server.cert}", key_file: "${server.key}", ca_file: "${authority.ca}", verify: true }
      authorization {
        edge: { publish: "tributary.edge.hint", subscribe: "tributary.edge.hint" }
        users: [{ user: instance, password: right, permissions: $edge }]
      }`,
    });
    t.teardown(() => nats.stop());
    const flags = (cluster: string): readonly string[] => [
      ...['--nats-servers', `tls://localhost:${nats.port}`, '--nats-cluster', cluster],
      ...['--nats-tls-ca', authority.ca, '--nats-tls-cert', instance.cert],
      ...['--nats-tls-key', instance.key, '--nats-user', 'instance'],
      ...['--nats-password-file', password],
    ];
    const map = {
      sources: { s: { path: authority.directory } },
      authorities: { [cloud]: { sources: ['s'] } },
    };
    const start = async (cluster: string): Promise<Gateway> => {
      const gateway = await Gateway.start({ authorityMap: map, args: flags(cluster) });
      t.teardown(() => gateway.stop());
      return gateway;
    };
    const [a, b, elsewhere] = [await start('edge'), await start('edge'), await start('other')];
    await tellingLogs([a, b, elsewhere, nats], async () => {
      await until('a wrong password is reported', () => a.logs().includes('peers_lost'));
      t.notMatch(a.logs(), /wrong/, 'but not its value');
      t.equal(await readiness(a), true);
      await writeFile(password, 'right\n');
      await connected({ a, b });
      await a.order(`/invalidate?authority=${cloud}`);
      await until(
        'b received it',
        async () => (await b.metric('tributary_peer_messages_received_total')) > 0,
      );
      await until('a cluster without permission is reported', () =>
        elsewhere.logs().includes('peers_refused'),
      );
      t.equal(await elsewhere.metric('tributary_peer_messages_received_total'), 0);
      t.equal(await readiness(elsewhere), true);
    });
  },
);
