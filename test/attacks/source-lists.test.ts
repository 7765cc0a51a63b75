/**
 * Goal: no list of a hostile source keeps the event loop busy, and no other client is affected
 * (docs/SECURITY.md, "Attacks").
 */
import t, { type Test } from 'tap';
import { DeltaClient } from '../support/delta-client.js';
import { listBytes, textEntry } from '../support/collection-messages.js';
import { TYPE_URLS } from '../support/mesh.js';
import { pause, until } from '../support/until.js';
import { ATTACKED, noLongTurn, startArena, underAttack, type Arena } from './arena.js';

t.setTimeout(60_000);

const CDS = TYPE_URLS.cluster;
const LIST_TYPE = `${CDS}Collection`;
const nameOf = (typeUrl: string, path: string): string =>
  `xdstp://${ATTACKED}/${typeUrl.slice(typeUrl.indexOf('/') + 1)}/${path}`;
const list = (path: string): string => nameOf(LIST_TYPE, path);
const cluster = (path: string): string => nameOf(CDS, path);

const times = <T>(count: number, make: (at: number) => T): readonly T[] =>
  Array.from({ length: count }, (_, at) => make(at));

function subscribe(t: Test, { gateway }: Arena, name: string): DeltaClient {
  const client = new DeltaClient({ port: gateway.port });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(CDS, [name]);
  return client;
}

t.test('a list of 100 lists of 100 lists blocks no turn for over 50 ms', async (t) => {
  const arena = await startArena(t);
  const { source } = arena;
  const entries = (paths: readonly string[]): Uint8Array =>
    listBytes(...paths.map((path) => textEntry(list(path))));
  source.putQuietly(LIST_TYPE, list('top'), entries(times(100, (at) => `mid${at}`)));
  for (let at = 0; at < 100; at++) {
    source.putQuietly(LIST_TYPE, list(`mid${at}`), entries(times(100, (low) => `low${at}-${low}`)));
  }
  const figures = await underAttack(t, arena, '10,101 lists', async () => {
    subscribe(t, arena, list('top'));
    await until('the innermost are asked for', () => source.isAsked(LIST_TYPE, list('low0-0')));
    await pause(3_000);
    source.put(LIST_TYPE, list('top'), entries(times(99, (at) => `mid${at}`)));
    await pause(2_000);
  });
  noLongTurn(t, figures);
});

t.test('a list of 10,000 entries that changes all the time is read once a second', async (t) => {
  const arena = await startArena(t);
  const { source } = arena;
  const entries = times(10_000, (at) => textEntry(cluster(`c${at}`)));
  const changed = (change: number, at: number): string => cluster(`d${change}-${at}`);
  const read = new Set<number>();
  const noteRead = (upTo: number): void => {
    for (let change = 0; change <= upTo; change++) {
      if (source.isAsked(CDS, changed(change, change % 100))) read.add(change);
    }
  };
  source.putQuietly(LIST_TYPE, list('top'), listBytes(...entries));
  let seconds = 0;
  const figures = await underAttack(
    t,
    arena,
    '200 changes of a list of 10,000 entries',
    async () => {
      subscribe(t, arena, list('top'));
      await until('its entries are asked for', () => source.isAsked(CDS, cluster('c0')));
      const beganMs = performance.now();
      for (let change = 0; change < 200; change++) {
        const next = entries.map((entry, at) =>
          at % 100 === change % 100 ? textEntry(changed(change, at)) : entry,
        );
        source.put(LIST_TYPE, list('top'), listBytes(...next));
        await pause(20);
        noteRead(change);
      }
      await until('the last change is read', () => source.isAsked(CDS, changed(199, 99)));
      noteRead(199);
      seconds = (performance.now() - beganMs) / 1_000;
    },
  );
  noLongTurn(t, figures);
  t.comment(`${read.size} of 200 changes read in ${seconds.toFixed(1)} s`);
  t.ok(read.size <= seconds + 1, 'others were replaced before they were read');
});
