/**
 * Which `initial_resource_versions` count: those of the first request of a type, for the names that
 * it subscribes.
 */
import t from 'tap';
import { DEFAULT_FAILOVER } from '../../../../../config/defaults.js';
import { request } from '../../../../support/model-client.js';
import { SDS, sds } from '../../../../support/mesh-names.js';
import { gist, Instance } from '../../../../support/session-driver.js';

t.test('versions count in the first request of a type only, and cost nothing later', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  const { version } = instance.directory.put(SDS, sds('g/a'), 'v1');
  client.subscribe(SDS, sds('other'));
  client.model.change(SDS, [sds('g/*')]);
  client.send(
    request({
      typeUrl: SDS,
      subscribe: [sds('g/*')],
      initialVersions: new Map([
        [sds('g/a'), version],
        [sds('g/b'), 'x'],
      ]),
    }),
  );
  instance.directory.answer();
  t.strictSame(gist(client.poll()), {
    type: 'Secret',
    resources: [sds('g/a')],
    removed: [sds('other')],
  });
  t.end();
});

t.test('versions of unsubscribed or invalid names are ignored', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  instance.directory.put(SDS, sds('a'), 'v1');
  client.model.change(SDS, [sds('a'), sds('g/*')]);
  client.send(
    request({
      typeUrl: SDS,
      subscribe: [sds('a'), sds('g/*')],
      initialVersions: new Map([
        ['old-style', '1'],
        [sds('elsewhere/x'), '1'],
        [sds('g/gone'), '1'],
        [sds('g/gone-too'), '1'],
      ]),
    }),
  );
  client.unsubscribe(SDS, sds('g/*'));
  instance.directory.answer();
  t.strictSame(client.settle().map(gist), [{ type: 'Secret', resources: [sds('a')], removed: [] }]);
  t.end();
});

t.test('a client that resumes with an empty version is sent the resource, or its removal', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  instance.directory.put(SDS, sds('a'), 'v1');
  client.model.change(SDS, [sds('a'), sds('b')]);
  client.send(
    request({
      typeUrl: SDS,
      subscribe: [sds('a'), sds('b')],
      initialVersions: new Map([
        [sds('a'), ''],
        [sds('b'), ''],
      ]),
    }),
  );
  instance.directory.answer();
  t.strictSame(client.settle().map(gist), [{ type: 'Secret', resources: [sds('a')], removed: [] }]);
  const afterGuard = client.settleAfter(DEFAULT_FAILOVER.switchWaitMs);
  t.strictSame(afterGuard.map(gist), [{ type: 'Secret', resources: [], removed: [sds('b')] }]);
  t.end();
});
