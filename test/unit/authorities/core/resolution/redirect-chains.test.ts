/** Redirects that lead to redirects: in a row, in cycles, and without end. */
import t from 'tap';
import type { ResolutionBounds } from '../../../../../config/limits.js';
import { REDIRECT, textLocatorBytes } from '../../../../support/collection-messages.js';
import {
  FederationDriver,
  mapOf,
  nameOf,
  THING,
  thing,
} from '../../../../support/federation-driver.js';

const a = thing('cloud', 'a');
const b = thing('cloud', 'b');
const c = thing('cloud', 'c');
const far = thing('onprem', 'far');

/** `cloud` at c and `onprem` at o; names of cloud may lead to names of onprem. */
function two(
  mayLeadTo: readonly string[] = ['onprem'],
  bounds: Partial<ResolutionBounds> = {},
): FederationDriver {
  return new FederationDriver(
    mapOf({
      authorities: {
        cloud: { sources: ['c'], mayLeadTo },
        onprem: { sources: ['o'] },
        third: { sources: ['third'] },
      },
    }),
    { bounds },
  );
}

const chain = (driver: FederationDriver, length: number): readonly string[] => {
  const names = Array.from({ length: length + 1 }, (_, index) => thing('cloud', `n${index}`));
  for (let at = 0; at < length; at++) driver.redirect('c', names[at]!, names[at + 1]!);
  driver.publish('c', names[length]!, 'end');
  return names;
};

t.test('four hops are followed, and five are an error on that name alone', (t) => {
  const driver = two();
  const names = chain(driver, 5);
  const watcher = driver.watching(names[0]!, names[1]!);
  t.strictSame(
    [...watcher.take()].sort(),
    [`changed ${names[1]!} end`, `error 5 ${names[0]!}`].sort(),
  );
  const hops = driver.federation.hops(THING, watcher.projections.get(names[1]!)!.name);
  t.strictSame(
    hops.map(({ from, to }) => [from, to]),
    names.slice(1, 5).map((name, at) => [name, names[at + 2]!]),
    'explain shows every hop',
  );
  driver.publish('c', names[2]!, 'shorter');
  t.strictSame(
    [...watcher.take()].sort(),
    [`changed ${names[0]!} shorter`, `changed ${names[1]!} shorter`],
    'it heals when the chain gets shorter',
  );
  t.end();
});

t.test('`resolution.max_hops` sets how many hops are followed', (t) => {
  for (const maxHops of [1, 6]) {
    const driver = two(undefined, { maxHops });
    const names = chain(driver, maxHops + 1);
    const watcher = driver.watching(names[0]!, names[1]!);
    t.strictSame(
      [...watcher.take()].sort(),
      [`changed ${names[1]!} end`, `error 5 ${names[0]!}`].sort(),
    );
  }
  t.end();
});

t.test('a chain that grows too long is an error for the names that lead to its end', (t) => {
  const driver = two();
  const names = chain(driver, 4);
  const watcher = driver.watching(names[0]!);
  watcher.take();
  driver.redirect('c', names[4]!, thing('cloud', 'n5'));
  driver.publish('c', thing('cloud', 'n5'), 'too far');
  t.strictSame(watcher.take(), [], 'held content stays');
  t.equal(watcher.held.get(names[0]!), 'end');
  t.match(driver.federation.hops(THING, watcher.projections.get(names[0]!)!.name)[0], {
    problem: /the limit of 4 hops/,
  });
  t.end();
});

t.test('a cycle is an error for each name in it, and heals', (t) => {
  for (const names of [[a], [a, b], [a, b, c]]) {
    const driver = two();
    for (const [at, name] of names.entries()) {
      driver.redirect('c', name, names[(at + 1) % names.length]!);
    }
    const watcher = driver.watching(...names);
    const errors = new Set(watcher.take());
    t.strictSame(
      [...errors].sort(),
      names.map((name) => `error 5 ${name}`),
    );
    driver.publish('c', names.at(-1)!, 'way out');
    t.strictSame(
      [...watcher.held.values()],
      names.map(() => 'way out'),
    );
  }
  t.end();
});

t.test(
  'a watcher that came to a cycle is notified when it ends with the earlier content (invariant 2)',
  (t) => {
    // Found by the simulation, seed 116672: content held in the cycle was not a change when the cycle
    // ended, so a watcher that was added in between got nothing.
    const driver = two();
    driver.redirect('c', a, b);
    driver.redirect('c', b, c);
    driver.publish('c', c, '1');
    driver.watching(b);
    driver.redirect('c', c, b);
    const watcher = driver.watching(a);
    t.notOk(watcher.held.has(a));
    driver.publish('c', c, '1');
    t.equal(watcher.held.get(a), '1');
    t.end();
  },
);

t.test('a chain that was too long, and whose last name is deleted, loses its held content', (t) => {
  const driver = two();
  const names = chain(driver, 4);
  const watcher = driver.watching(names[0]!);
  driver.redirect('c', names[4]!, thing('cloud', 'n5'));
  t.equal(watcher.held.get(names[0]!), 'end', 'held while the chain is too long');
  driver.delete('c', names[4]!);
  t.strictSame([...watcher.held], []);
  driver.publish('c', names[4]!, 'back');
  t.equal(watcher.held.get(names[0]!), 'back');
  t.end();
});

t.test('a cycle that is broken up resolves again', (t) => {
  const driver = two();
  driver.redirect('c', a, b);
  driver.publish('c', b, '1');
  const watcher = driver.watching(a);
  driver.redirect('c', b, a);
  t.equal(watcher.held.get(a), '1', 'held in the cycle');
  driver.delete('c', b);
  t.strictSame([...watcher.held], []);
  t.strictSame(driver.federation.hops(THING, nameOf(a)), [
    { kind: 'redirect', from: a, to: b, problem: undefined },
  ]);
  t.end();
});

t.test(
  'a cycle that no watcher needs is unsubscribed at the source, after a name or a glob (invariant 9)',
  (t) => {
    const [glob, x, y] = ['g/*', 'g/x', 'g/y'].map((id) => thing('cloud', id));
    for (const names of [[x!], [x!, y!], [x!, b, c]]) {
      for (const asked of [x!, glob!]) {
        const driver = two();
        for (const [at, name] of names.entries()) {
          driver.redirect('c', name, names[(at + 1) % names.length]!);
        }
        const watcher = driver.watching(asked);
        driver.unwatch(asked, watcher);
        t.strictSame(driver.server('c').stream.subscribed(THING), [], `${names.length} ${asked}`);
      }
    }
    t.end();
  },
);

t.test('an endless chain is followed only four hops from each subscription', (t) => {
  const driver = two();
  const names = chain(driver, 20);
  const watcher = driver.watching(names[0]!);
  const asked = (): number => driver.server('c').stream.subscribed(THING).length;
  t.equal(asked(), 5, 'the name and four hops');
  const second = driver.watching(names[3]!);
  t.equal(asked(), 8);
  driver.watching(names[16]!);
  t.equal(watcher.held.size, 0);
  driver.unwatch(names[3]!, second);
  t.equal(asked(), 10, 'five for each');
  t.equal(driver.watching(names[17]!).held.get(names[17]!), 'end');
  t.end();
});

t.test('links that a new map removes together stay removed', (t) => {
  const driver = two();
  driver.redirect('c', a, far);
  driver.redirect('o', far, a);
  const watcher = driver.watching(a);
  driver.reload(two([]).federation.map);
  driver.reload(two([]).federation.map);
  t.strictSame(driver.server('o').stream.subscribed(THING), []);
  driver.kill('c');
  driver.advance(60_000);
  driver.unwatch(a, watcher);
  t.strictSame(driver.federation.hops(THING, nameOf(a)), []);
  t.end();
});

t.test(
  'a name that redirected to itself may redirect elsewhere only where the map allows (invariant 12)',
  (t) => {
    const driver = two([]);
    driver.redirect('c', a, a);
    const watcher = driver.watching(a);
    driver.redirect('c', a, far);
    t.strictSame([...new Set(watcher.take())], [`error 5 ${a}`]);
    t.match(driver.federation.hops(THING, nameOf(a)), [{ problem: /may_lead_to/ }]);
    t.end();
  },
);

t.test('a cycle that a new map cuts is a chain that ends there', (t) => {
  const driver = new FederationDriver(
    mapOf({
      authorities: {
        cloud: { sources: ['c'], mayLeadTo: ['onprem'] },
        onprem: { sources: ['o'], mayLeadTo: ['cloud'] },
      },
    }),
  );
  const watcher = driver.watching(a);
  driver.redirect('c', a, far);
  driver.redirect('o', far, a);
  driver.reload(two().federation.map);
  const [, second] = driver.federation.hops(THING, nameOf(a));
  t.match(second, { to: a, problem: /may_lead_to of "onprem"/ });
  driver.unwatch(a, watcher);
  t.strictSame(driver.server('c').stream.subscribed(THING), []);
  t.end();
});

t.test('a redirect of a name that is released in the same response notifies nothing', (t) => {
  const driver = two();
  driver.redirect('c', a, b);
  driver.redirect('c', b, thing('third', 'x'));
  driver.publish('o', far, 'far');
  driver.watching(a);
  const server = driver.server('c');
  server.set(THING, a, 'here');
  server.set(THING, b, textLocatorBytes(far), REDIRECT);
  driver.announce('c', THING, a, b);
  t.strictSame(driver.watching(b).take(), [`changed ${b} far`], 'the next watcher gets content');
  t.end();
});
