/**
 * Goal: the headers of a call, some of them secrets, are not kept as long as its stream is open (invariant 13).
 * Method: a gateway in its own process, a client with a canary in its headers, and a search in a snapshot of the heap,
 * which V8 takes after it has collected the garbage.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { Gateway } from '../interop/peers/gateway.js';
import { DeltaClient } from '../support/delta-client.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { until } from '../support/until.js';

const AUTHORITY = 'cloud.test';
const NAME = xdstpName(AUTHORITY, 'assignment', 'edge/a');
const CANARY = 'canary-4f9c1d7be2';

t.test('13: no token of an open stream is in the heap of the gateway', async (t) => {
  const source = await ScriptedUpstream.start();
  const snapshots = mkdtempSync(join(tmpdir(), 'tributary-heap-'));
  source.putQuietly(TYPE_URLS.assignment, NAME, Buffer.from([0x0a, 0x01, 0x61]));
  const gateway = await Gateway.start({
    authorityMap: {
      sources: { s: { target: `127.0.0.1:${source.port}`, insecure: true } },
      authorities: { [AUTHORITY]: { sources: ['s'] } },
    },
    nodeArgs: ['--heapsnapshot-signal=SIGUSR2', `--diagnostic-dir=${snapshots}`],
  });
  const headers = { authorization: `Bearer ${CANARY}`, cookie: CANARY };
  const client = new DeltaClient({ port: gateway.port, headers });
  t.teardown(async () => {
    client.close();
    await gateway.stop();
    await source.stop();
    rmSync(snapshots, { recursive: true, force: true });
  });
  client.subscribe(TYPE_URLS.assignment, [NAME]);
  await until('the client is served', () => client.content(TYPE_URLS.assignment).has(NAME));

  process.kill(gateway.pid!, 'SIGUSR2');
  const file = await until('the snapshot is begun', () => readdirSync(snapshots)[0]);
  // V8 writes all of it in one turn.
  await gateway.admin('/clients');
  const snapshot = readFileSync(join(snapshots, file), 'latin1');
  t.ok(snapshot.includes(NAME), 'the snapshot has the name that the client asked for');
  t.notOk(snapshot.includes(CANARY), 'it has no token of the client');
  t.equal(client.status, undefined, 'the stream is open');
});
