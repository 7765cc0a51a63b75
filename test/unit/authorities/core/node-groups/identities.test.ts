/** Goal: the identity of a node group lives as long as the group is used, and no longer. */
import { inspect } from 'node:util';
import t from 'tap';
import { Identities } from '../../../../../authorities/core/node-groups/identities.js';
import {
  identityOfFields,
  SecretHeaders,
} from '../../../../../authorities/core/sources/client-identity.js';
import { encodeNode } from '../../../../../protos/node-codec.js';
import { scopeByRule, ruleOfFields } from '../../../../../protos/node-scope.js';
import { driverOf } from '../../../../support/node-groups.js';
import {
  FederationDriver,
  mapOf,
  RecordingWatcher,
} from '../../../../support/federation-driver.js';
import { oldStyleName } from '../../../../../protos/resource-name.js';

const HASHED = scopeByRule(
  { node: { id: 'a' }, headers: new Map([['authorization', ['secret-token']]]) },
  { ...ruleOfFields(['id']), headers: ['authorization'] },
);

t.test('an entry lives until its last holder ends the hold, and the first identity stays', (t) => {
  const identities = new Identities();
  const first = identityOfFields({ id: 'a' });
  const releaseOne = identities.hold(HASHED, first);
  const releaseTwo = identities.hold(HASHED, identityOfFields({ id: 'a' }));
  t.equal(identities.of(HASHED), first);
  releaseOne();
  releaseOne();
  t.equal(identities.of(HASHED), first, 'a hold ends once');
  t.equal(identities.size, 1);
  releaseTwo();
  t.equal(identities.of(HASHED), undefined);
  t.notOk(identities.has(HASHED));
  t.end();
});

t.test('a readable scope needs no entry, and the common scope has no identity', (t) => {
  const identities = new Identities();
  t.strictSame(identities.of('{"id":"a","without":["x"]}')?.fields, { id: 'a' });
  t.equal(identities.of(''), undefined);
  t.end();
});

t.test('names of a hashed scope without a holder are refused, and reach no source', (t) => {
  const driver = driverOf([{ sources: ['s'] }]);
  const watcher = new RecordingWatcher();
  const name = oldStyleName(HASHED, 'x');
  driver.watch(name.key, watcher);
  driver.advance(1);
  t.strictSame(watcher.take(), [`error 5 ${name.key}`]);
  t.strictSame(driver.dials, []);
  t.end();
});

t.test(
  'a lingering node group holds its identity, also over a reload, until it is forgotten',
  (t) => {
    const driver = driverOf([{ sources: ['s'] }]);
    const { identities } = driver.federation.nodeGroups;
    const watcher = new RecordingWatcher();
    const name = oldStyleName(HASHED, 'x');
    const release = identities.hold(HASHED, identityOfFields({ id: 'a' }));
    driver.watch(name.key, watcher);
    driver.advance(1);
    release();
    t.ok(identities.has(HASHED), 'the group is used');
    const [group] = [...driver.federation.nodeGroups.all];
    driver.federation.reload(
      {
        ...driver.federation.map,
        oldStyle: {
          differBy: ['cluster'],
          servedBy: driver.federation.map.oldStyle?.servedBy ?? [],
        },
      },
      driver.nowMs,
    );
    driver.advance(1);
    t.not([...driver.federation.nodeGroups.all][0], group, 'another group');
    t.ok(identities.has(HASHED));
    driver.unwatch(name.key, watcher);
    t.ok(identities.has(HASHED), 'it lingers');
    driver.advance(3_600_000);
    t.notOk(identities.has(HASHED));
    t.end();
  },
);

t.test('13: header values are in no inspection and no JSON', (t) => {
  const headers = new SecretHeaders(new Map([['authorization', ['secret-token']]]));
  const identity = { fields: {}, headers };
  for (const shown of [
    inspect(identity, { depth: 9, showHidden: true }),
    JSON.stringify(identity),
  ]) {
    t.notOk(shown.includes('secret-token'), shown);
  }
  t.end();
});

t.test('a source with `forward_node: all` gets the Node of the group as it was received', (t) => {
  const plain = mapOf({
    authorities: {},
    oldStyle: { differBy: ['id'], servedBy: [{ sources: ['s'] }] },
  });
  const spec = plain.sources.get('s');
  if (spec?.kind !== 'grpc') throw new Error('s is a management server');
  const map = { ...plain, sources: new Map([['s', { ...spec, forwardNode: 'all' } as const]]) };
  const driver = new FederationDriver(map);
  const node = encodeNode({ id: 'a', cluster: 'c', userAgentName: 'envoy', userAgentVersion: '1' });
  const name = oldStyleName(HASHED, 'x');
  driver.federation.nodeGroups.identities.hold(HASHED, { ...identityOfFields({ id: 'a' }), node });
  driver.watch(name.key, new RecordingWatcher());
  const ofGroup = [...driver.federation.servers].filter(({ id }) => id !== 's');
  t.strictSame(
    ofGroup.map((server) => Buffer.from(server.node)),
    [Buffer.from(node)],
  );
  t.end();
});
