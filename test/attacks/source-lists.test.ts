/**
 * Goal: no list of a hostile source keeps the event loop for over 50 ms, and no other client is affected
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
const list = (path: string): string =>
  `xdstp://${ATTACKED}/${LIST_TYPE.slice(LIST_TYPE.indexOf('/') + 1)}/${path}`;

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
