/**
 * Goal: a pipe, a device or a huge file in a directory of resources, or as the map, is a problem in the log
 * and no more (docs/SECURITY.md, "Attacks").
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { DeltaClient } from '../support/delta-client.js';
import { httpRequest } from '../support/http.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { until } from '../support/until.js';
import { noLongTurn, startArena, underAttack, type Arena } from './arena.js';

t.setTimeout(60_000);

const HUGE_BYTES = 1_200_000_000;
const MAX_LIVE_MS = 1_000;

/** Asks all the time until `done`. @returns the longest wait for `/live` */
async function slowestLiveMs({ gateway }: Arena, done: Promise<unknown>): Promise<number> {
  let slowestMs = 0;
  let isDone = false;
  void done.finally(() => (isDone = true)).catch(() => undefined);
  do {
    const beganMs = performance.now();
    await httpRequest(`http://${gateway.adminAddress}/live`, { timeoutMs: 5_000 });
    slowestMs = Math.max(slowestMs, performance.now() - beganMs);
  } while (!isDone);
  await done;
  return slowestMs;
}

/** Each makes a file at this path that must not be read whole. */
const BAD_FILES: readonly (readonly [what: string, make: (path: string) => void])[] = [
  ['a pipe', (path) => execFileSync('mkfifo', [path])],
  [
    'a device',
    (path) => {
      symlinkSync('/dev/zero', path);
    },
  ],
  [
    'a terminal',
    (path) => {
      symlinkSync('/dev/tty', path);
    },
  ],
  [
    'a file of 1.2 GB',
    (path) => {
      writeFileSync(path, '');
      truncateSync(path, HUGE_BYTES);
    },
  ],
];

function folder(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-files-'));
  t.teardown(() => {
    rmSync(directory, { recursive: true, force: true });
  });
  return directory;
}

t.test('pipes, devices and huge files among resources are problems in the log', async (t) => {
  const directory = folder(t);
  const arena = await startArena(t, {
    sources: { files: { path: directory } },
    authorities: { 'files.example.com': { sources: ['files'] } },
  });
  const problems = (): Promise<number> =>
    arena.gateway.metric('tributary_source_file_problems', { source: 'files' });
  let slowestMs = 0;
  const figures = await underAttack(
    t,
    arena,
    BAD_FILES.map(([what]) => what).join(', '),
    async () => {
      const attack = async (): Promise<void> => {
        for (const [at, [, make]] of BAD_FILES.entries()) {
          make(join(directory, `bad${at}.yaml`));
          await until('it is a problem', async () => (await problems()) === at + 1);
        }
      };
      slowestMs = await slowestLiveMs(arena, attack());
    },
  );
  t.ok(slowestMs <= MAX_LIVE_MS, `/live within ${slowestMs.toFixed(0)} ms`);
  noLongTurn(t, figures);
  t.ok(figures.peakRssMiB - figures.calmRssMiB <= 64, 'nothing of them is in memory');
});

t.test('a pipe, a device or a huge file in place of the map is refused', async (t) => {
  const arena = await startArena(t);
  const map = join(arena.gateway.directory, 'authority-map.json');
  const refused = (): Promise<number> =>
    arena.gateway.metric('tributary_map_reloads_total', { reason: 'refused' });
  let slowestMs = 0;
  const figures = await underAttack(t, arena, 'each in place of the map', async () => {
    const attack = async (): Promise<void> => {
      for (const [at, [, make]] of BAD_FILES.entries()) {
        rmSync(map);
        make(map);
        await until('it is refused', async () => (await refused()) >= at + 1);
      }
    };
    slowestMs = await slowestLiveMs(arena, attack());
  });
  t.ok(slowestMs <= MAX_LIVE_MS, `/live within ${slowestMs.toFixed(0)} ms`);
  noLongTurn(t, figures);
});

t.test(
  'a reload adds a file of 10,000 resources, and a client subscribes to all; they change three times',
  async (t) => {
    const directory = folder(t);
    const authority = 'files.example.com';
    const TYPE = TYPE_URLS.assignment;
    const COUNT = 5_000;
    const names = ['a', 'b'].flatMap((path) =>
      Array.from({ length: COUNT }, (_, at) => xdstpName(authority, 'assignment', `${path}/${at}`)),
    );
    const write = (portValue: number): void => {
      const endpoint = { address: { socketAddress: { address: '10.0.0.1', portValue } } };
      const endpoints = [{ lbEndpoints: Array(5).fill({ endpoint }) }];
      const resources = names.map((clusterName) => ({ '@type': TYPE, clusterName, endpoints }));
      writeFileSync(join(directory, '.new'), JSON.stringify({ resources }));
      renameSync(join(directory, '.new'), join(directory, 'all.json'));
    };
    write(8_000);
    const arena = await startArena(t);
    const client = new DeltaClient({ port: arena.gateway.port });
    t.teardown(() => {
      client.close();
    });
    const wait = { timeoutMs: 30_000 };
    const added = await underAttack(t, arena, 'a new file of 10,000 resources', async () => {
      const { map, gateway } = arena;
      const sources = { ...(map['sources'] as object), files: { path: directory } };
      const authorities = {
        ...(map['authorities'] as object),
        [authority]: { sources: ['files'] },
      };
      await gateway.setAuthorityMap({ ...map, sources, authorities });
      // One collection before the file is parsed, and one after that.
      for (const [at, glob] of ['a/*', 'b/*'].entries()) {
        client.subscribe(TYPE, [xdstpName(authority, 'assignment', glob)]);
        await until('the client has it', () => client.held(TYPE).size === (at + 1) * COUNT, wait);
      }
    });
    noLongTurn(t, added);
    const figures = await underAttack(t, arena, '3 × 10,000 resources in a file', async () => {
      for (const portValue of [8_001, 8_002, 8_003]) {
        const before = new Map(client.held(TYPE));
        write(portValue);
        const hasChanged = (name: string): boolean =>
          client.held(TYPE).get(name) !== before.get(name);
        await until('all have changed', () => names.every(hasChanged), wait);
      }
    });
    noLongTurn(t, figures);
  },
);
