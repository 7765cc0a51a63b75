/**
 * Goal: a catalogue whose names and versions exceed what a gRPC server accepts in one message comes back after the source
 * was away (docs/SPEC.md, "What each variant of a source does").
 * Method: the real program, and a real gRPC server with its default limit of 4 MiB, which is stopped and started.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { TYPE_URL } from '../../protos/type-urls.js';
import { DeltaClient } from '../support/delta-client.js';
import { serveMap } from '../support/program.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { until } from '../support/until.js';

t.setTimeout(60_000);

const CLUSTER = TYPE_URL.cluster;
const MEMBERS = 20_000;
const SERVER_LIMIT_BYTES = 4 * 1_024 * 1_024;
const FOLDER = 'xdstp://cloud.test/envoy.config.cluster.v3.Cluster/edge';
const LONG = 'n'.repeat(150);
const NAMES = Array.from({ length: MEMBERS }, (_, at) => `${FOLDER}/${LONG}-${at}`);
const [CHANGED = '', DELETED = '', ...KEPT] = NAMES;

/** A cluster with a name and an unknown field. */
function clusterOf(name: string, mark: number): Uint8Array {
  const text = Buffer.from(name);
  const length = Buffer.from([0x80 | (text.length & 0x7f), text.length >>> 7]);
  return Buffer.concat([Buffer.from([0x0a]), length, text, Buffer.from([0xf8, 0x7f, mark])]);
}

t.test(
  'a source with 20,000 long names is resumed after an outage, with its changes',
  async (t) => {
    t.ok(NAMES.join('').length > SERVER_LIMIT_BYTES, 'the versions of all names exceed the limit');
    const before = await ScriptedUpstream.start();
    for (const name of NAMES) before.putQuietly(CLUSTER, name, clusterOf(name, 1));
    const timers = { backoff_base: '50ms', backoff_max: '200ms' };
    const { port } = await serveMap(t, mkdtempSync(join(tmpdir(), 'tributary-large-')), {
      sources: { cloud: { target: `127.0.0.1:${before.port}`, insecure: true, timers } },
      authorities: { 'cloud.test': { sources: ['cloud'] } },
    });
    const client = new DeltaClient({ port });
    t.teardown(() => {
      client.close();
    });
    client.subscribe(CLUSTER, [`${FOLDER}/*`]);
    await until('the client has all', () => client.held(CLUSTER).size === MEMBERS);
    const oldVersion = client.held(CLUSTER).get(CHANGED);
    await before.stop();
    const after = await ScriptedUpstream.start(before.port);
    t.teardown(() => after.stop());
    for (const name of KEPT) after.putQuietly(CLUSTER, name, clusterOf(name, 1));
    after.putQuietly(CLUSTER, CHANGED, clusterOf(CHANGED, 2));
    await until('the change comes', () => client.held(CLUSTER).get(CHANGED) !== oldVersion);
    await until('the removal comes', () => !client.held(CLUSTER).has(DELETED));
    t.equal(client.held(CLUSTER).size, MEMBERS - 1);
    t.strictSame(after.nacks, []);
    t.equal(after.opened, 1, 'the server refused no request');
  },
);
