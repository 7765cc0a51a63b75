/**
 * Goal: a client with as many names as it may have keeps the event loop for no turn over 50 ms, also if each is of another
 * type, of another authority, or a collection (docs/SECURITY.md, "Attacks").
 */
import t, { type Test } from 'tap';
import { DeltaClient } from '../support/delta-client.js';
import { httpRequest } from '../support/http.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { pause, until } from '../support/until.js';
import { ATTACKED, noLongTurn, startArena, underAttack, type Arena } from './arena.js';
import { clusterBody } from './cluster-body.js';

t.setTimeout(120_000);

const CDS = TYPE_URLS.cluster;
const COUNT = 5_000;
/** Collections count as whole when nothing has come for `switch_wait` and half a second. */
const WHOLE_MS = 3_000;
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
const PATHS = ['/metrics', '/authorities', '/clients', '/status', '/config_dump', '/'];

t.test('5,000 types on one stream block no turn for over 50 ms', async (t) => {
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

for (const { what, authorities, nameOf } of [
  {
    what: '5,000 collections of one authority',
    authorities: [ATTACKED],
    nameOf: (at: number): string => xdstpName(ATTACKED, 'cluster', `dir${at}/one`),
  },
  {
    what: '5,000 collections of as many authorities',
    authorities: times(COUNT, (at) => `a${at}.example.com`),
    nameOf: (at: number): string => xdstpName(`a${at}.example.com`, 'cluster', 'dir/one'),
  },
]) {
  t.test(`${what} of a client block no turn for over 50 ms`, async (t) => {
    const other = await ScriptedUpstream.start();
    t.teardown(() => other.stop());
    const row = { sources: ['attacked', 'other'], failover: { prewarm: 'subscribed' } };
    const arena = await startArena(t, {
      sources: { other: { target: `127.0.0.1:${other.port}`, insecure: true } },
      authorities: Object.fromEntries(authorities.map((authority) => [authority, row])),
    });
    const names = times(COUNT, nameOf);
    for (const name of names) {
      arena.source.putQuietly(CDS, name, clusterBody(name, 1));
      other.putQuietly(CDS, name, clusterBody(name, 2));
    }
    const client = connect(t, arena);
    const attack = async (step: string, work: () => Promise<unknown>): Promise<void> => {
      noLongTurn(t, await underAttack(t, arena, `${what}: ${step}`, work));
    };
    await attack('they come', async () => {
      client.subscribe(
        CDS,
        names.map((name) => name.replace(/one$/, '*')),
      );
      await until('the client has all', () => client.held(CDS).size === COUNT, WAIT);
      await pause(WHOLE_MS);
    });
    await attack('an operator looks', async () => {
      for (const path of PATHS) {
        const url = `http://${arena.gateway.adminAddress}${path}`;
        const { status } = await httpRequest(url, { headers: { accept: 'text/html' } });
        t.equal(status, 200, path);
      }
    });
    const before = new Map(client.held(CDS));
    await attack('their source ends, and they move to another', async () => {
      await arena.source.stop();
      const hasMoved = (name: string): boolean => client.held(CDS).get(name) !== before.get(name);
      await until('all have moved', () => names.every(hasMoved), WAIT);
    });
    await attack('they go', async () => {
      other.respond({ typeUrl: CDS, removed: names });
      await until('the client has none', () => client.held(CDS).size === 0, WAIT);
    });
  });
}
