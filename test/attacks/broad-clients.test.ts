/**
 * Goal: a client with as many names as it may have keeps the event loop for no turn over 50 ms, also if each is of another
 * type, of another authority, or a collection (docs/SECURITY.md, "Attacks").
 */
import t, { type Test } from 'tap';
import { DeltaClient } from '../support/delta-client.js';
import { httpRequest } from '../support/http.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { until } from '../support/until.js';
import { ATTACKED, noLongTurn, startArena, underAttack, type Arena } from './arena.js';
import { clusterBody } from './cluster-body.js';

t.setTimeout(120_000);

const CDS = TYPE_URLS.cluster;
const COUNT = 9_000;
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

/** What an operator or a scraper reads. */
const PATHS = ['/metrics', '/authorities', '/clients', '/sources', '/status', '/instances', '/'];

t.test('9,000 types on one stream block no turn for over 50 ms', async (t) => {
  const arena = await startArena(t);
  const { source } = arena;
  const types = times(COUNT, (at) => `type.googleapis.com/attack.Type${at}`);
  const nameOf = (typeUrl: string): string =>
    `xdstp://${ATTACKED}/${typeUrl.slice(typeUrl.indexOf('/') + 1)}/one`;
  const set = (text: string): void => {
    for (const type of types) source.put(type, nameOf(type), Buffer.from(text));
  };
  set('x');
  const client = connect(t, arena);
  const hasAll = (before: number) => (): boolean => client.responses.length >= before + COUNT;
  const came = await underAttack(t, arena, `${COUNT} types on one stream`, async () => {
    for (const type of types) client.subscribe(type, [nameOf(type)]);
    await until('the client has all', hasAll(0), WAIT);
  });
  noLongTurn(t, came);
  const changed = await underAttack(t, arena, `${COUNT} types on one stream change`, async () => {
    const before = client.responses.length;
    set('y');
    await until('the client has all', hasAll(before), WAIT);
  });
  noLongTurn(t, changed);
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
    times(COUNT, (at) => `a${at}.example.com`),
  ],
] as const) {
  t.test(`${what} that go and come block no turn for over 50 ms`, async (t) => {
    const rows = authorities.map((authority) => [authority, { sources: ['attacked'] }] as const);
    const arena = await startArena(t, { authorities: Object.fromEntries(rows) });
    const { source } = arena;
    const names = times(COUNT, nameOf);
    for (const name of names) source.putQuietly(CDS, name, clusterBody(name, 1));
    const client = connect(t, arena);
    const came = await underAttack(t, arena, `${what} come`, async () => {
      client.subscribe(
        CDS,
        names.map((name) => name.replace(/one$/, '*')),
      );
      await until('the client has all', () => client.held(CDS).size === COUNT, WAIT);
    });
    noLongTurn(t, came);
    const went = await underAttack(t, arena, `${what} go`, async () => {
      source.respond({ typeUrl: CDS, removed: names });
      await until('the client has none', () => client.held(CDS).size === 0, WAIT);
    });
    noLongTurn(t, went);
    const seen = await underAttack(t, arena, `${what}, seen by an operator`, async () => {
      for (const path of PATHS) await httpRequest(`http://${arena.gateway.adminAddress}${path}`);
    });
    noLongTurn(t, seen);
  });
}
