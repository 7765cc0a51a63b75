/**
 * Goal: a start and a reload warn of what the map leaves open, and a reload that takes names from clients says so before it
 * does (docs/OPERATIONS.md, "Reload").
 */
import t from 'tap';
import type { FederationView } from '../../../../authorities/index.js';
import type { AuthorityMap, ClientRule } from '../../../../config/model.js';
import type { Settings } from '../../../../config/settings.js';
import { sayLostNames, sayMapWarnings } from '../../../../gateway/cli/map-warnings.js';

type View = Pick<FederationView, 'map' | 'groupsOf'>;

const mapWith = (names: readonly string[], more = {}): AuthorityMap =>
  ({ authorities: new Map(names.map((name) => [name, {}])), ...more }) as unknown as AuthorityMap;

/** Clients subscribe to three names of each authority but `unused`. */
const viewOf = (...names: readonly string[]): View => ({
  map: mapWith(names),
  groupsOf: (name) =>
    (name === 'unused'
      ? [{ demandCount: 0 }]
      : [{ demandCount: 1 }, { demandCount: 2 }]) as unknown as ReturnType<View['groupsOf']>,
});

function saidOf(view: View, next: AuthorityMap): readonly unknown[] {
  const said: unknown[] = [];
  const say = (event: string, fields: unknown): void => {
    said.push([event, fields]);
  };
  sayLostNames(view, next, '/map.yaml', { say });
  return said;
}

t.test('clients that lose the names of a removed authority are in the log', (t) => {
  t.strictSame(saidOf(viewOf('a.test', 'b.test', 'unused'), mapWith(['b.test', 'c.test'])), [
    [
      'map_warning',
      {
        warning:
          '/map.yaml: authorities."a.test": is not in the map any more: clients lose 3 names or globs ' +
          '(to rename it, keep both until no client uses the old name)',
      },
    ],
  ]);
  t.end();
});

t.test('an authority that the default source serves loses nothing', (t) => {
  t.strictSame(saidOf(viewOf('a.test'), mapWith([], { defaultSource: {} })), []);
  t.end();
});

t.test('the log does not list all of 32,000 removed authorities', (t) => {
  const names = Array.from({ length: 100 }, (_, index) => `a${index}.test`);
  t.equal(saidOf(viewOf(...names), mapWith([])).length, 50);
  t.end();
});

function warnedOf(
  clients: readonly Pick<ClientRule, 'match'>[] | undefined,
  client: Partial<Settings['client']>,
  ...warnings: readonly string[]
): readonly unknown[] {
  const said: unknown[] = [];
  const say = (event: string, fields?: unknown): void => {
    said.push(fields === undefined ? [event] : [event, fields]);
  };
  const map = { clients } as unknown as AuthorityMap;
  const settings = { client: client as Settings['client'], authorityMap: '/map.yaml' };
  sayMapWarnings(map, warnings, settings, { say });
  return said;
}

t.test('a map without rules for clients is said to be open, where others can connect', (t) => {
  const tls = { certChainFile: 'c', privateKeyFile: 'k', clientCaFile: 'ca' };
  t.strictSame(warnedOf(undefined, { host: '127.0.0.1' }), []);
  t.strictSame(warnedOf(undefined, { host: '0.0.0.0' }), [['clients_unrestricted']]);
  t.strictSame(warnedOf(undefined, { host: '0.0.0.0', tls }), [], 'it verifies certificates');
  t.strictSame(warnedOf([], { host: '0.0.0.0' }), [], 'it lets nobody in');
  t.end();
});

t.test('warnings of the file come before entries whose identity no client can have', (t) => {
  const said = warnedOf(
    [{ match: { spiffe: 'spiffe://a/b' } }],
    { host: '::1' },
    '/map.yaml:1:1: x',
  );
  t.strictSame(said[0], ['map_warning', { warning: '/map.yaml:1:1: x' }]);
  t.match(said[1], [
    'map_warning',
    { warning: /^\/map\.yaml.*matches no client: the gateway verifies no certificates/ },
  ]);
  t.equal(said.length, 2);
  t.end();
});
