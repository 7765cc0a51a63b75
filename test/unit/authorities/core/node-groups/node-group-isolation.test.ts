/**
 * Goal: whatever fails and changes, content sent for one node group never reaches another, and at
 * rest each holds the union of the content of its sources.
 * Method: two node groups at servers that answer by node id, and any order of events.
 */
import fc from 'fast-check';
import t from 'tap';
import { RecordingWatcher, THING } from '../../../../support/federation-driver.js';
import { at, driverOf, heldBy } from '../../../../support/node-groups.js';

interface Change {
  readonly source: string;
  readonly node: string;
  readonly name: string;
}
type Step =
  | ({ readonly kind: 'publish' } & Change)
  | ({ readonly kind: 'delete' } & Change)
  | { readonly kind: 'kill'; readonly source: string }
  | { readonly kind: 'revive'; readonly source: string }
  | { readonly kind: 'wait'; readonly ms: number };

const source = fc.constantFrom('c', 'o', 'other');
const change = {
  source,
  node: fc.constantFrom('a', 'b'),
  name: fc.constantFrom('x', 'y', 'z'),
};
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('publish' as const), ...change }),
  fc.record({ kind: fc.constant('delete' as const), ...change }),
  fc.record({ kind: fc.constant('kill' as const), source }),
  fc.record({ kind: fc.constant('revive' as const), source }),
  fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(100, 5_000, 60_000) }),
);

t.test('whatever happens, content of one node group never reaches another (invariant 21)', (t) => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const driver = driverOf([{ sources: ['c', 'o'] }, { sources: ['other'] }]);
      const watchers = { a: new RecordingWatcher(), b: new RecordingWatcher() };
      for (const [node, watcher] of Object.entries(watchers)) {
        for (const name of ['*', 'x']) driver.watch(at(node, name), watcher);
      }
      let count = 0;
      for (const one of steps) {
        if (one.kind === 'wait') driver.advance(one.ms);
        else if (one.kind === 'kill') driver.kill(one.source);
        else if (one.kind === 'revive') driver.revive(one.source);
        else if (one.kind === 'publish') {
          const body = `${one.node} ${one.source} ${++count}`;
          driver.server(one.source).setFor(one.node, THING, one.name, body);
          driver.announce(one.source, THING, one.name);
        } else {
          driver.server(one.source).delete(THING, one.name, one.node);
          driver.announce(one.source, THING, one.name);
        }
      }
      for (const [node, { told }] of Object.entries(watchers)) {
        const foreign = told.filter(
          (line) => line.startsWith('changed') && !line.includes(at(node, '')),
        );
        const others = told.filter(
          (line) => / [ab] (c|o|other) \d+$/.test(line) && !line.includes(` ${node} `),
        );
        if (foreign.length + others.length > 0)
          throw new Error(`${node}: ${[...foreign, ...others].join()}`);
      }
      // At rest, with all sources up, each holds the union over its entries; the first entry wins.
      for (const name of ['c', 'o', 'other']) driver.revive(name);
      driver.advance(1_000_000);
      for (const [node, watcher] of Object.entries(watchers)) {
        const expected: Record<string, string> = {};
        for (const name of ['x', 'y', 'z']) {
          const first = ['c', 'other'].map((one) => driver.server(one).get(THING, name, node));
          const body = first.find((one) => one !== undefined)?.body;
          if (body) expected[name] = Buffer.from(body).toString();
        }
        const held = heldBy(watcher);
        const sorted = Object.fromEntries(Object.entries(held).sort());
        if (JSON.stringify(sorted) !== JSON.stringify(expected)) {
          throw new Error(`${node} holds ${JSON.stringify(sorted)} of ${JSON.stringify(expected)}`);
        }
      }
    }),
    { numRuns: 100 },
  );
  t.end();
});
