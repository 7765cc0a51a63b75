import t from 'tap';
import { readResource, type Projection } from '../../../../../authorities/core/projection.js';
import { Redirects } from '../../../../../authorities/core/resolution/redirects.js';
import { DEFAULT_RESOLUTION } from '../../../../../config/limits.js';
import {
  listBytes,
  locatorBytes,
  REDIRECT,
  textEntry,
  textLocatorBytes,
} from '../../../../support/collection-messages.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import {
  FederationDriver,
  mapOf,
  nameOf,
  RecordingWatcher,
  THING,
  thing,
  WHOLE_MS,
} from '../../../../support/federation-driver.js';
import { encode } from '../../../protos/envoy-messages.js';

const a = thing('cloud', 'a');
const b = thing('cloud', 'b');
const far = thing('onprem', 'far');

/** `cloud` at c and `onprem` at o; names of cloud may lead to names of onprem. */
function two(mayLeadTo: readonly string[] = ['onprem']): FederationDriver {
  return new FederationDriver(
    mapOf({
      authorities: {
        cloud: { sources: ['c'], mayLeadTo },
        onprem: { sources: ['o'] },
        third: { sources: ['third'] },
      },
    }),
  );
}

t.test(
  'a redirect is followed across authorities, under the subscribed name (TP1 redirects)',
  (t) => {
    const driver = two();
    driver.redirect('c', a, far);
    driver.publish('o', far, 'far away');
    const watcher = driver.watching(a);
    t.strictSame(watcher.take(), [`changed ${a} far away`]);
    driver.publish('o', far, 'still far');
    t.strictSame(watcher.take(), [`changed ${a} still far`], 'the target changes');
    driver.publish('c', a, 'here');
    t.strictSame(watcher.take(), [`changed ${a} here`], 'the redirect ends');
    t.strictSame(driver.server('o').stream.subscribed(THING), [], 'the target is unsubscribed');
    t.end();
  },
);

t.test('both forms of a redirect are read: as published and as in the text of TP1', (t) => {
  const driver = two();
  driver.publish('o', far, 'far');
  const published = locatorBytes({
    authority: 'onprem',
    resource_type: 'test.v1.Thing',
    id: 'far',
  });
  driver.server('c').set(THING, a, published, REDIRECT);
  driver.server('c').set(THING, b, textLocatorBytes(far), REDIRECT);
  t.strictSame(
    [...driver.watching(a, b).held],
    [
      [a, 'far'],
      [b, 'far'],
    ],
  );
  t.end();
});

t.test('a redirect that moves never passes through absent (invariant 17)', (t) => {
  const driver = two();
  driver.redirect('c', a, b);
  driver.publish('c', b, '1');
  const watcher = driver.watching(a);
  watcher.take();
  driver.server('o').stalled.add(far);
  driver.redirect('c', a, far);
  t.strictSame(watcher.take(), [], 'the new target has not answered');
  t.equal(watcher.held.get(a), '1');
  t.strictSame(
    driver.watching(a).take(),
    [`changed ${a} 1`],
    'a new watcher gets the held content',
  );
  driver.server('o').stalled.delete(far);
  driver.publish('o', far, '2');
  t.ok(watcher.take().every((line) => line.startsWith('changed')));
  t.equal(watcher.held.get(a), '2');
  t.end();
});

t.test(
  'deleting a target removes the redirected name, and publishing it again restores the name',
  (t) => {
    const driver = two();
    driver.redirect('c', a, far);
    driver.publish('o', far, '1');
    const watcher = driver.watching(a);
    watcher.take();
    driver.delete('o', far);
    t.strictSame(watcher.take(), [`removed ${a}`]);
    driver.publish('o', far, '2');
    t.strictSame(watcher.take(), [`changed ${a} 2`]);
    driver.delete('c', a);
    t.strictSame(watcher.take(), [`removed ${a}`], 'the redirect itself is deleted');
    t.end();
  },
);

t.test('a target that never existed is absent under the subscribed name', (t) => {
  const driver = two();
  driver.redirect('c', a, far);
  t.strictSame(driver.watching(a).take(), [`absent ${a}`]);
  t.end();
});

t.test(
  'members of a glob are redirected, and it is complete when they resolve (invariant 3)',
  (t) => {
    const driver = two();
    const [glob, x, y] = ['g/*', 'g/x', 'g/y'].map((id) => thing('cloud', id));
    driver.redirect('c', x!, far);
    driver.server('c').set(THING, y!, 'own');
    driver.server('o').stalled.add(far);
    const watcher = driver.watching(glob!);
    driver.advance(WHOLE_MS);
    t.strictSame(watcher.take(), [`changed ${y!} own`]);
    driver.server('o').stalled.delete(far);
    driver.publish('o', far, '1');
    t.strictSame(watcher.take(), [`changed ${x!} 1`, `complete ${glob!}`]);
    t.end();
  },
);

t.test('a collection is complete when the last of its redirected members resolves', (t) => {
  const driver = two();
  const [glob, x, y] = ['g/*', 'g/x', 'g/y'].map((id) => thing('cloud', id));
  const other = thing('onprem', 'other');
  driver.redirect('c', x!, far);
  driver.redirect('c', y!, other);
  for (const target of [far, other]) driver.server('o').stalled.add(target);
  const watcher = driver.watching(glob!);
  driver.advance(WHOLE_MS);
  t.strictSame(watcher.take(), []);
  driver.publish('o', far, '1');
  t.strictSame(watcher.take(), [`changed ${x!} 1`]);
  driver.publish('o', other, '2');
  t.strictSame(watcher.take(), [`changed ${y!} 2`, `complete ${glob!}`]);
  t.end();
});

t.test(
  'a collection with a member whose target is unreachable is not complete (invariant 3)',
  (t) => {
    const driver = two();
    const [glob, x] = ['g/*', 'g/x'].map((id) => thing('cloud', id));
    driver.redirect('c', x!, far);
    driver.server('o').reachability = 'refuse';
    const watcher = driver.watching(glob!);
    driver.advance(60_000);
    t.strictSame(watcher.take(), [`error 14 ${x!}`]);
    t.end();
  },
);

t.test('a new watcher of a redirected name is notified at once', (t) => {
  const driver = two();
  driver.redirect('c', a, far);
  driver.publish('o', far, '1');
  driver.watching(a);
  t.strictSame([...driver.watching(a).held], [[a, '1']]);
  t.strictSame(
    [...driver.watching(a, far).held],
    [
      [a, '1'],
      [far, '1'],
    ],
  );
  t.end();
});

t.test('without subscribers, the target is unsubscribed with the redirect (invariant 9)', (t) => {
  const driver = two();
  driver.redirect('c', a, far);
  driver.publish('o', far, '1');
  const watcher = driver.watching(a);
  const second = driver.watching(a);
  driver.unwatch(a, watcher);
  t.strictSame(driver.server('o').stream.subscribed(THING), [far]);
  driver.unwatch(a, second);
  t.strictSame(driver.server('o').stream.subscribed(THING), []);
  t.end();
});

t.test(
  'unsubscribing a glob unsubscribes the targets of its members, except of members subscribed by name',
  (t) => {
    const driver = two();
    const [glob, x, y] = ['g/*', 'g/x', 'g/y'].map((id) => thing('cloud', id));
    const other = thing('onprem', 'other');
    driver.redirect('c', x!, far);
    driver.redirect('c', y!, other);
    for (const name of [far, other]) driver.publish('o', name, '1');
    const all = driver.watching(glob!);
    driver.watching(y!);
    driver.unwatch(glob!, all);
    t.strictSame(driver.server('o').stream.subscribed(THING), [other]);
    t.end();
  },
);

t.test('a hop leads only where the map allows (invariant 12)', (t) => {
  const driver = two([]);
  driver.redirect('c', a, far);
  driver.publish('o', far, 'secret');
  const watcher = driver.watching(a);
  t.strictSame(watcher.take(), [`error 5 ${a}`]);
  t.equal(
    driver.dials.filter(({ source }) => source === 'o').length,
    0,
    'its source is not even connected',
  );
  const allowing = two().federation.map;
  driver.reload(allowing);
  t.strictSame(watcher.take(), [`changed ${a} secret`], 'a new map allows it');
  driver.reload(two([]).federation.map);
  t.strictSame(
    [...new Set(watcher.take())],
    [`removed ${a}`, `error 5 ${a}`],
    'the permission is lost (invariant 3)',
  );
  t.end();
});

t.test('a redirect leads to one resource of the same type, by a valid name', (t) => {
  for (const to of ['xdstp://onprem/test.v1.Other/x', thing('onprem', 'g/*')]) {
    const driver = two();
    driver.redirect('c', a, to);
    t.strictSame(driver.watching(a).take(), [`error 5 ${a}`], to);
  }
  for (const body of [Buffer.from([0xff]), textLocatorBytes('http://x'), textLocatorBytes('')]) {
    const driver = two();
    driver.server('c').set(THING, b, body, REDIRECT);
    driver.watching(b);
    const [ack] = driver.server('c').stream.acks;
    t.match(ack?.error, /is a redirect that/, 'NACKed on arrival');
  }
  t.end();
});

t.test('a redirect of the primary is served while the target is at the alternative', (t) => {
  const driver = new FederationDriver(
    mapOf({
      authorities: {
        cloud: { sources: ['c'], alternatives: [{ authority: 'onprem' }] },
        onprem: { sources: ['o'] },
      },
    }),
  );
  driver.redirect('c', a, b);
  driver.publish('c', b, 'cloud');
  driver.redirect('o', thing('onprem', 'a'), far);
  driver.publish('o', far, 'onprem');
  driver.publish('o', thing('onprem', 'b'), 'onprem b');
  const watcher = driver.watching(a);
  t.equal(watcher.held.get(a), 'cloud');
  watcher.take();
  driver.kill('c');
  driver.advance(20_000);
  t.equal(watcher.held.get(a), 'onprem', 'the redirect of the alternative counts there');
  t.notOk(watcher.told.some((line) => line.startsWith('removed') || line.startsWith('absent')));
  t.end();
});

t.test('a redirected cluster keeps its references, and gets the subscribed name', (t) => {
  const typeUrl = TYPE_URL.cluster;
  const type = 'envoy.config.cluster.v3.Cluster';
  const [asked, target] = [`xdstp://cloud/${type}/a`, `xdstp://onprem/${type}/b`];
  const eds = 'xdstp://onprem/envoy.config.endpoint.v3.ClusterLoadAssignment/e';
  const cluster = (name: string): Uint8Array =>
    encode(type, { name, type: 3, eds_cluster_config: { service_name: eds } });
  const driver = two();
  driver.redirect('c', asked, target, typeUrl);
  driver.publish('o', target, cluster(target), typeUrl);
  const watcher = new RecordingWatcher();
  driver.watch(asked, watcher, typeUrl);
  t.equal(watcher.held.get(asked), Buffer.from(cluster(asked)).toString());
  t.equal(watcher.projections.get(asked)?.edsKey, eds);
  t.end();
});

t.test(
  'content replaced by a redirect to an absent target is removed, from a glob and a list too',
  (t) => {
    const driver = two();
    const [glob, x] = ['g/*', 'g/x'].map((id) => thing('cloud', id));
    const list = 'xdstp://cloud/test.v1.ThingCollection/l';
    driver.publish('c', x!, '1');
    driver.publish('c', list, listBytes(textEntry(x!)), `${THING}Collection`);
    const watchers = [glob!, list, x!].map((name) => driver.watching(name));
    driver.redirect('c', x!, far);
    t.strictSame(
      watchers.map(({ held }) => held.size),
      [0, 0, 0],
    );
    t.end();
  },
);

t.test('a new watcher of a name that does not resolve is notified at once, too', (t) => {
  for (const isDown of [false, true]) {
    const driver = two();
    driver.redirect('c', a, far);
    if (isDown) driver.server('o').reachability = 'refuse';
    driver.watching(a);
    driver.advance(60_000);
    const expected = isDown ? `error 14 ${a}` : `absent ${a}`;
    t.strictSame(driver.watching(a).take(), [expected]);
    driver.redirect('c', b, a);
    t.strictSame(driver.watching(b).take(), [expected.replace(a, b)], 'through another redirect');
  }
  t.end();
});

t.test(
  'a redirect that nobody followed is no content until the target of the next one answers',
  (t) => {
    const changed: Projection[] = [];
    const watcher = new RecordingWatcher();
    watcher.onChanged = (projection) => changed.push(projection);
    const redirects = new Redirects({
      bounds: DEFAULT_RESOLUTION,
      nowMs: () => 0,
      mayLead: () => true,
      watch: () => undefined,
      unwatch: () => undefined,
      watchersOf: () => [watcher],
      audienceOf: () => [watcher],
    });
    const redirectTo = (target: string): Projection => {
      const read = readResource(nameOf(a), THING, REDIRECT, textLocatorBytes(target));
      if (!read.ok) throw new Error(read.reason);
      return read.projection;
    };
    t.ok(redirects.handleChanged(redirectTo(far), redirectTo(b)));
    redirects.replay(THING, nameOf(a), [watcher]);
    t.strictSame(changed, []);
    t.end();
  },
);
