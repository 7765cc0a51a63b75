/**
 * Goal: names of a state file that the control plane does not have keep the event loop for no turn over 50 ms, neither
 * many of one authority nor a few of each of many authorities (docs/SECURITY.md, "Attacks").
 * Method: the gateway and its control plane end; both start again, the control plane empty.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { removeScratch, scratchDirectory } from '../interop/peers/child.js';
import { DeltaClient } from '../support/delta-client.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { until } from '../support/until.js';
import { ATTACKED, noLongTurn, startArena, underAttack, type Arena } from './arena.js';
import { clusterBody } from './cluster-body.js';

t.setTimeout(120_000);

const CDS = TYPE_URLS.cluster;
const WAIT = { timeoutMs: 60_000, everyMs: 100 };

interface Remembered {
  readonly authorities: readonly string[];
  readonly clustersOfEach: number;
}

const globOf = (authority: string): string => xdstpName(authority, 'cluster', 'edge/*');

/** @returns a gateway whose state file has these names, beside a control plane that has none; both have just started */
async function startRemembering(t: Test, { authorities, clustersOfEach }: Remembered) {
  const state = await scratchDirectory('state');
  t.teardown(() => removeScratch(state));
  const file = join(state, 'names.json');
  const deletion_guard = { wait: '3s', then: 'proceed' };
  const row = { sources: ['attacked'], failover: { switch_wait: '500ms', deletion_guard } };
  const rows = authorities.map((authority) => [authority, row] as const);
  const arena = await startArena(t, {
    authorities: Object.fromEntries(rows),
    args: ['--state-file', file],
  });
  const { gateway, source, innocent } = arena;
  for (const authority of authorities) {
    for (let at = 0; at < clustersOfEach; at++) {
      const name = xdstpName(authority, 'cluster', `edge/member-${at}`);
      source.putQuietly(CDS, name, clusterBody(name, 1));
    }
  }
  const count = authorities.length * clustersOfEach;
  const client = subscribe(t, arena, authorities);
  await until('the client holds all', () => client.held(CDS).size === count, WAIT);
  const written = async (): Promise<boolean> =>
    (await readFile(file, 'utf8').catch(() => '')).split('edge/member-').length > count;
  await until('the state file has all', written, WAIT);
  client.close();
  await gateway.kill();
  await source.stop();
  const empty = await ScriptedUpstream.start(source.port);
  t.teardown(() => empty.stop());
  await gateway.restart();
  await innocent.subscribe(gateway.port);
  return arena;
}

function subscribe(t: Test, { gateway }: Arena, authorities: readonly string[]): DeltaClient {
  const client = new DeltaClient({ port: gateway.port });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(CDS, authorities.map(globOf));
  return client;
}

for (const { what, authorities, clustersOfEach } of [
  { what: '50,000 names of one authority', authorities: [ATTACKED], clustersOfEach: 50_000 },
  {
    what: '2 names of each of 5,000 authorities',
    authorities: Array.from({ length: 5_000 }, (_, at) => `a${at}.example.com`),
    clustersOfEach: 2,
  },
]) {
  t.test(`${what}, remembered and gone, block no turn for over 50 ms`, async (t) => {
    const arena = await startRemembering(t, { authorities, clustersOfEach });
    const figures = await underAttack(t, arena, what, async () => {
      const client = subscribe(t, arena, authorities);
      const count = authorities.length * clustersOfEach;
      await until('all are removed', () => client.removals(CDS).length >= count, WAIT);
    });
    noLongTurn(t, figures);
  });
}
