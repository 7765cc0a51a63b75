/** Goal: a reload that takes names from clients says so before it does (docs/OPERATIONS.md, "Reload"). */
import t from 'tap';
import type { FederationView } from '../../../../authorities/index.js';
import type { AuthorityMap } from '../../../../config/model.js';
import { sayLostNames } from '../../../../gateway/cli/map-warnings.js';

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
