/**
 * Goal: a source that is a Tributary itself says nothing about a collection that did not change while it was away.
 * The return to it then waits for `first_response_timeout`, and with `resume: fresh` it does not
 * (docs/CONTROL-PLANES.md, "How long a return takes").
 * Method: two gateways over directories as the sources of a third one, all in this process.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ControlPlane, startServer } from '../../gateway/demo/demo-server.js';
import { DeltaClient } from '../support/delta-client.js';
import { CDS, EDS, cds, eds } from '../support/mesh-names.js';
import { until } from '../support/until.js';

t.setTimeout(90_000);

const AUTHORITY = 'cloud.test';
const GLOB = eds('x/*', AUTHORITY);
const SILENCE_MS = 5_000;

/** The cluster tells its version; the collection of assignments is the same in all. */
function writeMesh(folder: string, seconds: number): void {
  const resources = [
    { '@type': CDS, name: cds('x/1', AUTHORITY), connect_timeout: `${seconds}s` },
    { '@type': EDS, cluster_name: eds('x/1', AUTHORITY) },
  ];
  writeFileSync(join(folder, 'mesh.yaml'), JSON.stringify({ resources }));
}

async function startPlane(t: Test, folder: string, name: string, seconds: number) {
  mkdirSync(join(folder, name));
  writeMesh(join(folder, name), seconds);
  const map = join(folder, `${name}.yaml`);
  writeFileSync(
    map,
    `sources: { files: { path: ./${name} } }\nauthorities: { ${AUTHORITY}: { sources: [files] } }\n`,
  );
  const plane = new ControlPlane(map);
  await plane.start();
  t.teardown(() => plane.kill());
  return plane;
}

/** @returns milliseconds from the return of the first source until its names are back */
async function returnTakes(t: Test, resume: 'trusted' | 'fresh'): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-behind-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const cloud = await startPlane(t, folder, 'cloud', 1);
  const onprem = await startPlane(t, folder, 'onprem', 2);
  const timers = `{ backoff_base: 50ms, backoff_max: 100ms, first_response_timeout: ${SILENCE_MS}ms }`;
  const source = ({ port }: ControlPlane): string =>
    `{ target: "127.0.0.1:${port}", insecure: true, resume: ${resume}, timers: ${timers} }`;
  const map = join(folder, 'map.yaml');
  writeFileSync(
    map,
    `sources:
  cloud: ${source(cloud)}
  onprem: ${source(onprem)}
authorities:
  ${AUTHORITY}:
    sources: [cloud, onprem]
    failover: { hold: 200ms, hold_max: 200ms, switch_wait: 200ms }
`,
  );
  let state: unknown;
  const { gateway, port } = await startServer(map, 0, ({ event, to }) => {
    if (event === 'failover_state') state = to;
  });
  t.teardown(() => gateway.stop());
  const client = new DeltaClient({ port });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(CDS, [cds('x/1', AUTHORITY)]);
  client.subscribe(EDS, [GLOB]);
  await until('the client has both', () => client.held(CDS).size + client.held(EDS).size === 2);
  await cloud.kill();
  await until('the alternative serves', () => state === 'alt');
  // The gateway requests the cluster first. Its change is the first response of the new stream; without one, the
  // source would confirm the collection by an empty response.
  writeMesh(join(folder, 'cloud'), 3);
  await cloud.start();
  const beganMs = performance.now();
  await until('the first source serves again', () => state === 'primary', { timeoutMs: 30_000 });
  return performance.now() - beganMs;
}

t.test('resume: trusted: the return waits until silence means that nothing changed', async (t) => {
  t.ok((await returnTakes(t, 'trusted')) >= SILENCE_MS);
});

t.test('resume: fresh: the source sends all again, and the return does not wait', async (t) => {
  t.ok((await returnTakes(t, 'fresh')) < SILENCE_MS);
});
