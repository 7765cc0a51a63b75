/**
 * Goal: a client with as many names as it may have keeps the event loop for no turn over 50 ms, also if each is of another
 * type, of another authority, or a collection (docs/SECURITY.md, "Attacks").
 */
import t, { type Test } from 'tap';
import { DeltaClient } from '../support/delta-client.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { until } from '../support/until.js';
import { ATTACKED, noLongTurn, startArena, underAttack, type Arena } from './arena.js';
import { clusterBody } from './cluster-body.js';

t.setTimeout(120_000);

const CDS = TYPE_URLS.cluster;
const COLLECTIONS = 9_000;
const WAIT = { timeoutMs: 60_000, everyMs: 50 };

function connect(t: Test, { gateway }: Arena): DeltaClient {
  const client = new DeltaClient({ port: gateway.port });
  t.teardown(() => {
    client.close();
  });
  return client;
}

const times = <T>(count: number, make: (at: number) => T): readonly T[] =>
  Array.from({ length: count }, (_, at) => make(at));

t.test('names of 9,000 types on one stream', async (t) => {
  const arena = await startArena(t);
  const { source } = arena;
  const types = times(COLLECTIONS, (at) => `type.googleapis.com/attack.Type${at}`);
  const nameOf = (typeUrl: string): string =>
    `xdstp://${ATTACKED}/${typeUrl.slice(typeUrl.indexOf('/') + 1)}/one`;
  const body = Buffer.from('x');
  for (const type of types) source.putQuietly(type, nameOf(type), body);
  const figures = await underAttack(t, arena, '9,000 types, which change', async () => {
    const client = connect(t, arena);
    for (const type of types) client.subscribe(type, [nameOf(type)]);
    const have = (): number => types.filter((type) => client.held(type).size > 0).length;
    await until('the client has all', () => have() === COLLECTIONS || client.status !== undefined, WAIT);
    console.log(client.status, have());
    const before = client.responses.length;
    for (const type of types) source.put(type, nameOf(type), Buffer.from('y'));
    await until('the client has all', () => client.responses.length >= before + COLLECTIONS || client.status !== undefined, WAIT);
  });
  noLongTurn(t, figures);
});

for (const [what, nameOf, authorities] of [
  [
    '9,000 collections of one authority',
    (at: number) => xdstpName(ATTACKED, 'cluster', `dir${at}/one`),
    [],
  ],
  [
    '9,000 collections of as many authorities',
    (at: number) => xdstpName(`a${at}.example.com`, 'cluster', 'dir/one'),
    times(COLLECTIONS, (at) => `a${at}.example.com`),
  ],
] as const) {
  t.test(`${what} that go and come block no turn for over 50 ms`, async (t) => {
    const rows = authorities.map((authority) => [authority, { sources: ['attacked'] }] as const);
    const arena = await startArena(t, { authorities: Object.fromEntries(rows) });
    const { source } = arena;
    const names = times(COLLECTIONS, nameOf);
    for (const name of names) source.putQuietly(CDS, name, clusterBody(name, 1));
    const client = connect(t, arena);
    const came = await underAttack(t, arena, `${what} come`, async () => {
      client.subscribe(CDS, names.map((name) => name.replace(/one$/, '*')));
      await until('the client has all', () => client.held(CDS).size === COLLECTIONS, WAIT);
    });
    noLongTurn(t, came);
    const went = await underAttack(t, arena, `${what} go`, async () => {
      source.respond({ typeUrl: CDS, removed: names });
      await until('the client has none', () => client.held(CDS).size === 0, WAIT);
    });
    noLongTurn(t, went);
  });
}
