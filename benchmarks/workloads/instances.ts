import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NatsServer } from '../../test/interop/peers/nats-server.js';
import { DeltaClient } from '../../test/support/delta-client.js';
import { httpRequest } from '../../test/support/http.js';
import { ScriptedUpstream } from '../../test/support/scripted-upstream.js';
import { until } from '../../test/support/until.js';
import { Child, GENERATOR_CORE, SERVER_CORE } from '../harness/child.js';
import { built } from '../harness/paths.js';
import { AUTHORITY } from '../harness/server.js';
import { down, sleep, type Workload } from './workload.js';

const TYPE_URL = 'type.googleapis.com/test.v1.Thing';
const CHANGES = 500;
/** Below the limit of 100 requests a second. */
const GAP_MS = 20;

interface Instance {
  readonly admin: string;
  readonly client: DeltaClient;
}

const nameOf = (at: number): string => `xdstp://${AUTHORITY}/test.v1.Thing/${at}`;

async function counted(admin: string, metric: string): Promise<number> {
  const { body } = await httpRequest(`http://${admin}/metrics`);
  return Number(new RegExp(`^${metric} (.*)$`, 'm').exec(body)?.[1] ?? Number.NaN);
}

/**
 * Two instances at two replicas of a control plane. The replica of B only responds and never
 * pushes, so every change reaches B's client through a hint, its grace period (1 s) and a request.
 */
export const hints: Workload = {
  id: 'N',
  title: () => 'change at instance A → by a hint at instance B, whose source never pushes',
  servers: ['tributary'],
  run: async (_name, scale) => {
    const folder = await mkdtemp(join(tmpdir(), 'tributary-bench-'));
    const nats = await NatsServer.start();
    const sources = [await ScriptedUpstream.start(), await ScriptedUpstream.start()] as const;
    const children: Child[] = [];
    const clients: DeltaClient[] = [];
    const start = async (port: number): Promise<Instance> => {
      const file = join(folder, `map-${port}.json`);
      const source = { target: `127.0.0.1:${port}`, insecure: true };
      const map = { sources: { up: source }, authorities: { [AUTHORITY]: { sources: ['up'] } } };
      await writeFile(file, JSON.stringify(map));
      const ports = ['--client-port', '0', '--admin-port', '0', '--nats-servers', nats.url];
      const args = [built('gateway/main.js'), 'serve', '--authority-map', file, ...ports];
      const child = new Child('node', args, children.length === 0 ? SERVER_CORE : GENERATOR_CORE);
      children.push(child);
      const ready = await child.lineWithEvent('gateway_ready');
      const client = new DeltaClient({ port: Number(String(ready['listen']).split(':').at(-1)) });
      clients.push(client);
      const admin = String(ready['admin']);
      await until('NATS is there', async () => {
        return (await counted(admin, 'tributary_peers_connected')) === 1;
      });
      return { admin, client };
    };
    try {
      const [a, b] = [await start(sources[0].port), await start(sources[1].port)];
      const names = Array.from({ length: down(CHANGES, scale) }, (_, at) => nameOf(at));
      for (const source of sources) {
        for (const name of names) source.putQuietly(TYPE_URL, name, Buffer.from('1'));
      }
      for (const { client } of [a, b]) client.subscribe(TYPE_URL, names);
      await until('all is held', () =>
        [a, b].every(({ client }) => client.held(TYPE_URL).size === names.length),
      );
      await sleep(2_000);
      const sentBefore = await counted(a.admin, 'tributary_peer_messages_sent_total');
      const heldBefore = new Map(b.client.held(TYPE_URL));
      const startedMs = new Map<string, number>();
      const tookMs: number[] = [];
      const look = setInterval(() => {
        for (const [name, atMs] of startedMs) {
          if (b.client.held(TYPE_URL).get(name) === heldBefore.get(name)) continue;
          tookMs.push(performance.now() - atMs);
          startedMs.delete(name);
        }
      }, 1);
      for (const name of names) {
        sources[1].putQuietly(TYPE_URL, name, Buffer.from('2'));
        startedMs.set(name, performance.now());
        sources[0].put(TYPE_URL, name, Buffer.from('2'));
        await sleep(GAP_MS);
      }
      await until('B has all changes', () => startedMs.size === 0);
      clearInterval(look);
      tookMs.sort((one, other) => one - other);
      const quantile = (share: number): number =>
        tookMs[Math.min(tookMs.length - 1, Math.floor(tookMs.length * share))] ?? Number.NaN;
      const sent = (await counted(a.admin, 'tributary_peer_messages_sent_total')) - sentBefore;
      return new Map([
        ['p50 ms', quantile(0.5)],
        ['p99 ms', quantile(0.99)],
        ['messages of A per change', sent / names.length],
        ['requests of B per change', (await questions(b.admin)) / names.length],
      ]);
    } finally {
      for (const client of clients) client.close();
      for (const child of children) await child.stop();
      for (const source of sources) await source.stop();
      await nats.stop();
      await rm(folder, { recursive: true, force: true });
    }
  },
};

const questions = (admin: string): Promise<number> =>
  counted(admin, 'tributary_revalidations_total\\{reason="hint"\\}');
