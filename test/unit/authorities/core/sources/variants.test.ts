/** Variants of resources (TP2) at one source: which subscriptions a variant is for, and how one replaces another. */
import t, { type Test } from 'tap';
import {
  forParameters,
  readResource,
  referredKeys,
} from '../../../../../authorities/core/projection.js';
import { encodeEdsCluster } from '../../../../../protos/placeholder-messages.js';
import { onlyFor, type SentResource } from '../../../../support/discovery-messages.js';
import {
  FederationDriver,
  mapOf,
  thing,
  THING,
  RecordingWatcher,
  type MapSketch,
} from '../../../../support/federation-driver.js';
import { nameOf } from '../../../../support/fake-directory.js';
import { cds, CDS, eds, EDS } from '../../../../support/mesh-names.js';

const N = thing('a', 'g/1');
const PROD = `env=prod ${N}`;
const TEST = `env=test ${N}`;
const keyOf = (text: string): string => `\t${text.replace(' ', '\t')}`;

let nonces = 0;

/** The test answers for the source `s`. */
function setUp(sketch: Partial<MapSketch> = {}) {
  const map = mapOf({ authorities: { a: { sources: ['s'] } }, variants: ['s'], ...sketch });
  const driver = new FederationDriver(map);
  for (const name of [N, thing('a', 'h/2')]) driver.server('s').stalled.add(name);
  const send = (
    resources: readonly SentResource[],
    gone: readonly (readonly [name: string, env?: string])[] = [],
    removed: readonly string[] = [],
  ): void => {
    driver.send('s', {
      typeUrl: THING,
      nonce: `n${++nonces}`,
      resources,
      removed,
      removedVariants: gone.map(([name, env]) => ({
        name,
        ...(env === undefined ? {} : { constraints: onlyFor('env', env) }),
      })),
    });
  };
  return { driver, send };
}

const variant = (env: string, body: string, name = N): SentResource => ({
  name,
  version: body,
  body: Buffer.from(body),
  constraints: onlyFor('env', env),
});
const plain = (body: string, name = N): SentResource => ({
  name,
  version: body,
  body: Buffer.from(body),
});

const heldBy = (watcher: RecordingWatcher): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [...watcher.held].map(([key, body]) => [key.replaceAll('\t', ' ').trim(), body]),
  );

/** The last ACK or NACK. */
function lastError(driver: FederationDriver): string | undefined {
  return driver.server('s').stream.acks.at(-1)?.error;
}

function locatorsOf(driver: FederationDriver): unknown {
  return driver
    .server('s')
    .stream.requests.flatMap(({ subscribe, unsubscribe, locators, locatorsLeft }) => {
      const said = [...subscribe, ...unsubscribe.map((name) => `-${name}`)];
      const texts = (sign: string, all: typeof locators) =>
        all.map(({ name, dynamic_parameters: given }) => `${sign}${JSON.stringify(given)} ${name}`);
      return [...said, ...texts('', locators), ...texts('-', locatorsLeft)];
    });
}

const locatorsIn = <Locator>({ locators }: { readonly locators: readonly Locator[] }) => locators;

t.test('a name with parameters is requested with them, beside plain names (TP2)', (t) => {
  const { driver } = setUp();
  const watcher = driver.watching(PROD, N, TEST);
  t.strictSame(locatorsOf(driver), [N, `{"env":"prod"} ${N}`, `{"env":"test"} ${N}`]);
  driver.unwatch(PROD, watcher);
  driver.unwatch(N, watcher);
  t.strictSame(
    (locatorsOf(driver) as string[]).slice(3).sort(),
    [`-${N}`, `-{"env":"prod"} ${N}`].sort(),
  );
  t.end();
});

t.test('a first request of locators alone names no resource, so it is no wildcard (TP2)', (t) => {
  const { driver } = setUp();
  driver.watching(PROD);
  const [first] = driver.server('s').stream.requests;
  t.strictSame(first?.subscribe, []);
  t.match(first?.locators, [{ name: N, dynamic_parameters: { env: 'prod' } }]);
  t.end();
});

t.test('each subscription gets the variant whose constraints its parameters meet (TP2)', (t) => {
  const { driver, send } = setUp();
  const watcher = driver.watching(PROD, TEST, `env=qa ${N}`, N);
  send([variant('prod', 'P'), variant('test', 'T')]);
  t.strictSame(heldBy(watcher), { [PROD]: 'P', [TEST]: 'T' });
  t.equal(lastError(driver), undefined);
  send([plain('U')]);
  t.match(
    lastError(driver),
    new RegExp(`${N} has two variants for {env=prod}: \\(env=prod\\) and \\(\\)`),
  );
  t.strictSame(
    heldBy(watcher),
    { [PROD]: 'P', [TEST]: 'T', [`env=qa ${N}`]: 'U', [N]: 'U' },
    'a variant without constraints is for everyone without another one',
  );
  t.end();
});

t.test('a variant that is removed is removed where it was, and nowhere else (TP2)', (t) => {
  const { driver, send } = setUp();
  const watcher = driver.watching(PROD, TEST);
  send([variant('prod', 'P'), variant('test', 'T')]);
  send([], [[N, 'qa']]);
  send([], [], [N]);
  t.strictSame(heldBy(watcher), { [PROD]: 'P', [TEST]: 'T' }, 'neither was one of these');
  send([], [[N, 'prod']]);
  driver.advance(60_000);
  t.strictSame(heldBy(watcher), { [TEST]: 'T' });
  t.end();
});

t.test('a name without variants is absent for all that have none (TP2)', (t) => {
  const { driver, send } = setUp();
  const watcher = driver.watching(PROD, TEST, N);
  send([variant('prod', 'P')], [], [N]);
  t.ok(watcher.told.includes(`absent ${keyOf(TEST)}`));
  t.ok(watcher.told.includes(`absent ${N}`));
  t.strictSame(heldBy(watcher), { [PROD]: 'P' });
  t.end();
});

t.test('variants that split or merge in one response are an update, not a removal (TP2)', (t) => {
  const { driver, send } = setUp();
  const v1 = `env=prod&version=v1 ${N}`;
  const v2 = `env=prod&version=v2 ${N}`;
  const watcher = driver.watching(v1, v2);
  send([variant('prod', 'P')]);
  t.strictSame(heldBy(watcher), { [v1]: 'P', [v2]: 'P' });
  watcher.take();
  const both = (version: string): SentResource => ({
    ...variant('prod', `P-${version}`),
    constraints: {
      and_constraints: { constraints: [onlyFor('env', 'prod'), onlyFor('version', version)] },
    },
  });
  send([both('v1'), both('v2')], [[N, 'prod']]);
  t.strictSame(heldBy(watcher), { [v1]: 'P-v1', [v2]: 'P-v2' });
  t.equal(watcher.take().length, 2, 'one update each');
  t.equal(lastError(driver), undefined);
  t.end();
});

t.test('a second variant for the same parameters is refused, and both are named (TP2)', (t) => {
  const { driver, send } = setUp();
  const both = `env=prod&version=v1 ${N}`;
  const watcher = driver.watching(both);
  send([variant('prod', 'P')]);
  send([{ ...variant('prod', 'V'), constraints: onlyFor('version', 'v1') }]);
  t.match(lastError(driver), /\(env=prod\) and \(version=v1\)/);
  t.strictSame(heldBy(watcher), { [both]: 'P' });
  const before = driver.server('s').stream.requests.length;
  send([], [[N, 'prod']]);
  const asked = driver.server('s').stream.requests.slice(before);
  t.ok(
    asked.some(({ locators }) => locators.length === 1),
    'it is requested again',
  );
  t.strictSame(heldBy(watcher), { [both]: 'P' }, 'and kept meanwhile');
  send([{ ...variant('prod', 'V'), constraints: onlyFor('version', 'v1') }]);
  t.equal(lastError(driver), undefined);
  t.strictSame(heldBy(watcher), { [both]: 'V' });
  t.end();
});

t.test('a refused variant that the source removed is not requested again (TP2)', (t) => {
  const { driver, send } = setUp();
  const both = `env=prod&version=v1 ${N}`;
  const watcher = driver.watching(both);
  send([variant('prod', 'P')]);
  send([{ ...variant('prod', 'V'), constraints: onlyFor('version', 'v1') }]);
  const removedVariants = [{ name: N, constraints: onlyFor('version', 'v1') }];
  driver.send('s', { typeUrl: THING, nonce: 'gone', removedVariants });
  const before = driver.server('s').stream.requests.length;
  send([], [[N, 'prod']]);
  t.equal(driver.server('s').stream.requests.slice(before).flatMap(locatorsIn).length, 0);
  driver.advance(60_000);
  t.strictSame(heldBy(watcher), {});
  t.end();
});

t.test('more refused variants than are told apart: the name is requested again (TP2)', (t) => {
  const { driver, send } = setUp();
  const all = Array.from({ length: 20 }, (_, at) => onlyFor(`k${at}`, '1'));
  const parameters = all.map((_, at) => `k${at}=1`).sort();
  const watcher = driver.watching(`${parameters.join('&')} ${N}`);
  for (const [at, constraints] of all.entries()) send([{ ...plain(`${at}`), constraints }]);
  const remove = (some: typeof all): void => {
    const removedVariants = some.map((constraints) => ({ name: N, constraints }));
    driver.send('s', { typeUrl: THING, nonce: `gone ${some.length}`, removedVariants });
  };
  remove(all.slice(1, 17));
  const before = driver.server('s').stream.requests.length;
  remove(all.slice(0, 1));
  t.equal(driver.server('s').stream.requests.slice(before).flatMap(locatorsIn).length, 1);
  t.equal(watcher.held.size, 1, 'and kept meanwhile');
  t.end();
});

t.test('a removal with empty constraints is one by name (TP2)', (t) => {
  const { driver, send } = setUp();
  const watcher = driver.watching(PROD, TEST);
  send([variant('prod', 'P')], [[N]]);
  t.ok(watcher.told.includes(`absent ${keyOf(TEST)}`));
  t.strictSame(heldBy(watcher), { [PROD]: 'P' });
  send([plain('U')], [[N]]);
  t.match(lastError(driver), /occurs twice in one response/);
  t.end();
});

t.test('a name without parameters has one variant too, and a new stream tells anew (TP2)', (t) => {
  const { driver, send } = setUp({ timers: { minStableMs: 0 } });
  const watcher = driver.watching(N);
  const others = { ...plain('D'), constraints: { not_constraints: onlyFor('env', 'prod') } };
  send([plain('U')]);
  send([others]);
  t.match(lastError(driver), /has two variants for {}: \(\) and \(not \(env=prod\)\)/);
  driver.cut('s');
  driver.advance(5_000);
  send([others]);
  t.strictSame(heldBy(watcher), { [N]: 'D' });
  const before = driver.server('s').stream.requests.length;
  send([], [], [N]);
  const asked = driver.server('s').stream.requests.slice(before);
  t.notOk(
    asked.some(({ subscribe }) => subscribe.length > 0),
    'this stream refused none',
  );
  t.end();
});

t.test('one response may have several variants of a name, but none of them twice (TP2)', (t) => {
  const { driver, send } = setUp();
  const watcher = driver.watching(PROD, TEST);
  send([variant('prod', 'P'), variant('prod', 'Q')]);
  t.match(lastError(driver), /occurs twice in one response/);
  send([variant('prod', 'P')], [[N, 'prod']]);
  t.match(lastError(driver), /occurs twice in one response/);
  t.strictSame(heldBy(watcher), {});
  t.end();
});

t.test('after a reconnect, variants that the source does not send again are removed (TP2)', (t) => {
  const { driver, send } = setUp({ timers: { minStableMs: 0 } });
  const watcher = driver.watching(PROD, TEST, N);
  send([variant('prod', 'P'), variant('test', 'T'), plain('U', thing('a', 'g/2'))], [], [N]);
  driver.cut('s');
  driver.advance(5_000);
  const [first] = driver.server('s').stream.requests;
  t.strictSame(first?.initialVersions, {}, 'versions by name cannot tell variants apart');
  send([{ ...variant('prod', 'P2'), constraints: { not_constraints: onlyFor('env', 'test') } }]);
  t.equal(lastError(driver), undefined, 'what the stream before sent is no second variant');
  t.equal(heldBy(watcher)[PROD], 'P2');
  driver.advance(60_000);
  t.equal(heldBy(watcher)[TEST], undefined);
  t.end();
});

t.test(
  'a member whose constraints cannot be judged is unknown until the source removes it (TP2)',
  (t) => {
    const { driver, send } = setUp({ variants: [] });
    const [glob, constraints] = [thing('a', 'g/*'), { constraint: { key: 'env' } }];
    const watcher = driver.watching(glob);
    send([{ ...plain('M'), constraints }, plain('other', thing('a', 'g/2'))]);
    driver.advance(60_000);
    t.equal(watcher.proven.get(glob), false, 'the source has it');
    const removedVariants = [{ name: N, constraints }];
    driver.send('s', { typeUrl: THING, nonce: 'gone', removedVariants });
    driver.advance(60_000);
    t.equal(watcher.proven.get(glob), true);
    t.end();
  },
);

t.test('constraints that cannot be judged are refused (TP2)', (t) => {
  const { driver, send } = setUp();
  const watcher = driver.watching(PROD);
  send([{ ...variant('prod', 'P'), constraints: { constraint: { key: 'env' } } }]);
  t.match(lastError(driver), /has constraints that do not say how the key "env" is matched/);
  t.strictSame(heldBy(watcher), {});
  t.end();
});

t.test('an error for a name concerns each of its variants that is not held (TP2, TP3)', (t) => {
  const { driver, send } = setUp();
  const watcher = driver.watching(PROD, TEST);
  send([variant('prod', 'P')]);
  driver.send('s', { typeUrl: THING, nonce: 'e', errors: [{ name: N, code: 7 }] });
  t.strictSame(heldBy(watcher), { [PROD]: 'P' });
  t.ok(watcher.told.includes(`absent ${keyOf(TEST)} (7)`));
  t.end();
});

t.test(
  'an error ends a variant without constraints, and another one may follow (TP2, TP3)',
  (t) => {
    const { driver, send } = setUp();
    const watcher = driver.watching(PROD);
    send([plain('U')]);
    driver.send('s', { typeUrl: THING, nonce: 'e', errors: [{ name: N, code: 5 }] });
    send([variant('prod', 'P')]);
    t.equal(lastError(driver), undefined);
    t.strictSame(heldBy(watcher), { [PROD]: 'P' });
    t.end();
  },
);

t.test('removals of variants are refused one by one, and may come in portions (TP2)', (t) => {
  const map = mapOf({ authorities: { a: { sources: ['s'] } }, variants: ['s'] });
  for (const portionBytes of [Infinity, 1]) {
    const driver = new FederationDriver(map, { portionBytes });
    driver.server('s').stalled.add(N);
    const watcher = driver.watching(PROD, TEST);
    const resources = [variant('prod', 'P'), variant('test', 'T')];
    driver.send('s', { typeUrl: THING, nonce: '1', resources });
    driver.advance(1_000);
    const removedVariants = [
      { name: 'xdstp://broken' },
      { name: N, constraints: { constraint: { key: 'env' } } },
      { name: N, constraints: onlyFor('env', 'prod') },
      { name: N },
    ];
    driver.send('s', { typeUrl: THING, nonce: '2', removedVariants });
    driver.advance(60_000);
    t.strictSame(heldBy(watcher), { [TEST]: 'T' });
    t.match(lastError(driver), /^xdstp:\/\/broken is not a resource name/);
  }
  t.end();
});

t.test('a member of a collection is not removed because a variant is absent (TP2)', (t) => {
  const { driver, send } = setUp();
  driver.server('s').stalled.add(thing('a', 'g/*'));
  const watcher = driver.watching(thing('a', 'g/*'), TEST);
  send([{ ...plain('D'), constraints: { not_constraints: onlyFor('env', 'test') } }], [], [N]);
  t.strictSame(heldBy(watcher), { [N]: 'D' });
  t.ok(watcher.told.includes(`absent ${keyOf(TEST)}`));
  send([], [], [thing('a', 'g/2')]);
  t.strictSame(heldBy(watcher), { [N]: 'D' });
  send([], [[N]]);
  t.strictSame(heldBy(watcher), { [N]: 'D' }, 'there is none without constraints');
  t.end();
});

t.test('what a variant refers to has its parameters (TP2)', (t) => {
  const name = nameOf(`\tenv=prod\t${cds('c')}`);
  const bodies: readonly [string, string][] = [
    [eds('e'), `\tenv=prod\t${eds('e')}`],
    ['', `\tenv=prod\t${cds('c')}`],
  ];
  for (const [serviceName, expected] of bodies) {
    const read = readResource(name, CDS, CDS, encodeEdsCluster(cds('c'), serviceName));
    t.ok(read.ok && read.projection.edsKey === expected, expected);
    if (!read.ok) continue;
    t.strictSame(referredKeys(read.projection, EDS), [expected]);
    const test = forParameters(read.projection, nameOf(`\tenv=test\t${cds('c')}`));
    t.equal(test.edsKey, expected.replace('prod', 'test'));
  }
  t.end();
});

t.test(
  'a variant for thousands of sets of parameters is taken in portions, and shared (TP2)',
  (t) => {
    const map = mapOf({ authorities: { a: { sources: ['s'] } }, variants: ['s'] });
    const driver = new FederationDriver(map, { portionBytes: 100 * 1_024 });
    driver.server('s').stalled.add(N);
    const watcher = new RecordingWatcher();
    for (let pod = 0; pod < 1_000; pod++) {
      const name = nameOf(`\tenv=prod&pod=${pod}\t${N}`);
      driver.federation.watch(THING, name, watcher, driver.nowMs);
    }
    driver.pump();
    driver.send('s', { typeUrl: THING, nonce: '1', resources: [variant('prod', 'P')] });
    const turns: number[] = [];
    for (let before = watcher.held.size; before < 1_000; before = watcher.held.size) {
      driver.turn();
      turns.push(watcher.held.size - before);
    }
    t.ok(Math.max(...turns) <= 101, turns.join());
    const fields = new Set([...watcher.projections.values()].map(({ field }) => field));
    t.equal(fields.size, 1, 'the bytes of all are the same');
    driver.send('s', {
      typeUrl: THING,
      nonce: '2',
      removedVariants: [{ name: N, constraints: onlyFor('env', 'prod') }],
    });
    driver.advance(60_000);
    t.equal(watcher.held.size, 0);
    t.equal(lastError(driver), undefined);
    t.end();
  },
);

// ---- sources without TP2 ----------------------------------------------------------------------

t.test('a source without dynamic parameters is asked without, and serves all alike (TP2)', (t) => {
  const { driver, send } = setUp({ variants: [] });
  const watcher = driver.watching(PROD, TEST);
  t.strictSame(locatorsOf(driver), [N], 'once');
  send([plain('U')]);
  t.strictSame(heldBy(watcher), { [PROD]: 'U', [TEST]: 'U' });
  driver.unwatch(PROD, watcher);
  t.strictSame(locatorsOf(driver), [N], 'still needed');
  const late = driver.watching(N);
  t.strictSame(heldBy(late), { [N]: 'U' });
  driver.unwatch(TEST, watcher);
  send([], [], [N]);
  driver.advance(60_000);
  t.strictSame(heldBy(late), {});
  driver.unwatch(N, late);
  t.strictSame((locatorsOf(driver) as string[]).at(-1), `-${N}`);
  t.end();
});

t.test(
  'a variant of such a source is served only to those whose parameters it is for (TP2)',
  (t) => {
    const { driver, send } = setUp({ variants: [] });
    const watcher = driver.watching(PROD, N);
    send([variant('prod', 'P')]);
    t.match(lastError(driver), /is a variant for other clients: env=prod is not met by {}/);
    t.strictSame(heldBy(watcher), {}, 'it was asked without parameters');
    send([{ ...plain('D'), constraints: { not_constraints: onlyFor('env', 'prod') } }]);
    t.strictSame(heldBy(watcher), { [N]: 'D' });
    t.end();
  },
);

t.test('names with parameters move to the alternative, and back (TP2, invariant 6)', (t) => {
  const { driver, send } = setUp({
    authorities: {
      a: { sources: ['s'], alternatives: [{ authority: 'b' }] },
      b: { sources: ['files'] },
    },
  });
  driver.publish('files', thing('b', 'g/1'), 'onprem');
  const watcher = driver.watching(PROD, N);
  send([
    variant('prod', 'P'),
    { ...plain('D'), constraints: { not_constraints: onlyFor('env', 'prod') } },
  ]);
  t.strictSame(heldBy(watcher), { [PROD]: 'P', [N]: 'D' });
  driver.kill('s');
  driver.advance(120_000);
  t.strictSame(heldBy(watcher), { [PROD]: 'onprem', [N]: 'onprem' });
  driver.revive('s');
  while (!driver.isConnected('s')) driver.advance(1_000);
  send([
    variant('prod', 'P'),
    { ...plain('D'), constraints: { not_constraints: onlyFor('env', 'prod') } },
  ]);
  driver.advance(120_000);
  t.strictSame(heldBy(watcher), { [PROD]: 'P', [N]: 'D' });
  t.end();
});

function testRedirect(t: Test): void {
  const { driver, send } = setUp();
  const target = thing('a', 'h/2');
  const watcher = driver.watching(PROD);
  driver.redirect('s', N, target);
  const redirect = driver.server('s').get(THING, N);
  send([
    {
      name: N,
      version: 'r',
      body: redirect?.body ?? Buffer.alloc(0),
      ...(redirect?.bodyTypeUrl !== undefined && { typeUrl: redirect.bodyTypeUrl }),
      constraints: onlyFor('env', 'prod'),
    },
  ]);
  t.ok((locatorsOf(driver) as string[]).includes(`{"env":"prod"} ${target}`));
  send([variant('prod', 'there', target)]);
  t.strictSame(heldBy(watcher), { [PROD]: 'there' });
  send([], [[N, 'prod']]);
  driver.advance(60_000);
  t.strictSame(heldBy(watcher), {});
  t.end();
}

t.test('a redirect leads to its target with the same parameters (TP1, TP2)', testRedirect);

t.test('a name may be requested with parameters for two types (TP2)', (t) => {
  const { driver, send } = setUp({ variants: [] });
  const other = 'type.googleapis.com/test.v1.Other';
  driver.server('s').stalled.add(N);
  const [one, two] = [driver.watching(PROD), driver.watching()];
  driver.watch(PROD, two, other);
  driver.unwatch(PROD, two, other);
  send([plain('U')]);
  t.strictSame([heldBy(one), heldBy(two)], [{ [PROD]: 'U' }, {}]);
  t.end();
});
