/** Goal: `explain` says what each source has answered for a name (docs/guides/troubleshooting.md). */
import t from 'tap';
import { explainName, nameFrom } from '../../../../../gateway/admin/explain.js';
import { explainOldStyle } from '../../../../../gateway/admin/explain-old-style.js';
import { NO_DETAILS } from '../../../../../gateway/admin/source-details.js';
import {
  FederationDriver,
  mapOf,
  RecordingWatcher,
  THING,
} from '../../../../support/federation-driver.js';
import { at } from '../../../../support/node-groups.js';

const CDS = 'type.googleapis.com/envoy.config.cluster.v3.Cluster';
const cluster = (id: string): string => `xdstp://cloud/envoy.config.cluster.v3.Cluster/${id}`;
const MALFORMED = Uint8Array.of(0x0a, 0x7f);

function answersFor(driver: FederationDriver, text: string): readonly (string | undefined)[] {
  const named = nameFrom(text);
  if (!named.ok) throw new Error(named.message);
  const explanation = explainName(driver.federation, named.name, NO_DETAILS);
  return explanation?.candidates.map(({ answer }) => answer) ?? [];
}

t.test('explain: what each source of a name has answered', (t) => {
  const driver = new FederationDriver(
    mapOf({ authorities: { cloud: { sources: ['a', 'b'], failover: { prewarm: 'off' } } } }),
  );
  const watcher = new RecordingWatcher();
  const names = ['held', 'gone', 'wrong', 'x/*', 'y/*'];
  for (const id of names) driver.watch(cluster(id), watcher, CDS);
  driver.publish('a', cluster('held'), '', CDS);
  driver.publish('a', cluster('wrong'), MALFORMED, CDS);
  driver.publish('a', cluster('x/1'), '', CDS);
  driver.advance(60_000);
  const answers = Object.fromEntries(
    [...names, 'x/1'].map((id) => [id, answersFor(driver, cluster(id))[0]]),
  );
  t.strictSame(answers, {
    held: 'sent',
    gone: 'absent',
    wrong: 'rejected',
    'x/*': 'sent',
    'x/1': 'sent',
    'y/*': 'sent',
  });
  driver.publish('a', cluster('held'), MALFORMED, CDS);
  t.strictSame(answersFor(driver, cluster('held')), ['rejected', 'not requested']);
  t.end();
});

t.test('explain: a source that says nothing of a name', (t) => {
  const driver = new FederationDriver(mapOf({ authorities: { cloud: { sources: ['a'] } } }));
  const watcher = new RecordingWatcher();
  driver.watch(cluster('gone'), watcher, CDS);
  driver.server('a').reachability = 'black_hole';
  driver.watch(cluster('x'), watcher, CDS);
  t.strictSame(answersFor(driver, cluster('x')), ['not answered yet']);
  driver.advance(60_000);
  t.strictSame(answersFor(driver, cluster('x')), ['no answer']);
  t.end();
});

t.test('explain: an old-style name, for each node group', (t) => {
  const servedBy = [{ sources: ['a'] }];
  const driver = new FederationDriver(
    mapOf({ authorities: {}, oldStyle: { differBy: ['id'], servedBy } }),
  );
  driver.server('a').set(THING, 'x', '1');
  driver.watching(at('n', 'x'), at('n', 'y'));
  driver.advance(1_000);
  const answers = ['x', 'y', 'z'].map((text) =>
    explainOldStyle(driver.federation, text, THING, NO_DETAILS)?.nodeGroups.map(({ entries }) =>
      entries.flatMap(({ candidates }) => candidates.map(({ answer }) => answer)),
    ),
  );
  t.strictSame(answers, [[['sent']], [['absent']], [['not requested']]]);
  t.end();
});
