/** Goal: an operator sees what a client holds of each resource that it subscribes to, in both flavours. */
import t from 'tap';
import { clientResources } from '../../../../gateway/admin/client-resources.js';
import type { SubscriptionsView } from '../../../../gateway/core/session/stream-session.js';
import { CDS, EDS, RDS, cds, eds, rds } from '../../../support/mesh-names.js';
import { Instance } from '../../../support/session-driver.js';
import { SotwClient } from '../../../support/sotw-driver.js';

type Client = ReturnType<Instance['connect']> | SotwClient;

function ask(client: Client, typeUrl: string, ...names: readonly string[]): void {
  if (client instanceof SotwClient) client.ask(typeUrl, ...names);
  else client.subscribe(typeUrl, ...names);
}

const ofType = (client: Client, typeUrl: string): readonly SubscriptionsView[] =>
  client.session.allSubscriptions.filter((one) => one.typeUrl === typeUrl);

/** `NAME HOLDING`, and whether the version is known. */
const rows = (client: Client, typeUrl: string): readonly string[] =>
  ofType(client, typeUrl)
    .flatMap((one) => [...clientResources(one)])
    .map(({ name, holding, version, served }) =>
      [name, holding, ...(version !== '' && version === served?.version ? ['as served'] : [])].join(
        ' ',
      ),
    )
    .sort();

const clientsOf = (instance: Instance): readonly Client[] => [
  instance.connect(),
  new SotwClient(instance),
];

t.test('names: unsent until they are sent, current, older, and absent', (t) => {
  for (const index of [0, 1]) {
    const instance = new Instance();
    const client = clientsOf(instance)[index]!;
    ask(client, RDS, rds('a'), rds('silent'), rds('none'));
    t.strictSame(rows(client, RDS), [
      `${rds('a')} unsent`,
      `${rds('none')} unsent`,
      `${rds('silent')} unsent`,
    ]);
    instance.directory.put(RDS, rds('a'), 'v1');
    instance.directory.answer(({ key }) => key !== rds('silent'));
    client.settle();
    t.strictSame(rows(client, RDS), [
      `${rds('a')} current as served`,
      `${rds('none')} absent`,
      `${rds('silent')} unsent`,
    ]);
    instance.directory.put(RDS, rds('a'), 'v2');
    t.strictSame(rows(client, RDS)[0], `${rds('a')} older`);
    client.settle();
    t.strictSame(rows(client, RDS)[0], `${rds('a')} current as served`);
  }
  t.end();
});

t.test('members of a glob stand for themselves, and an empty glob for itself', (t) => {
  for (const index of [0, 1]) {
    const instance = new Instance();
    const client = clientsOf(instance)[index]!;
    ask(client, RDS, rds('g/*'), rds('empty/*'), rds('g/named'));
    t.strictSame(rows(client, RDS), [
      `${rds('empty/*')} unsent`,
      `${rds('g/*')} unsent`,
      `${rds('g/named')} unsent`,
    ]);
    instance.directory.put(RDS, rds('g/a'), 'v1');
    instance.directory.put(RDS, rds('g/named'), 'v1');
    instance.directory.answer();
    client.settle();
    t.strictSame(rows(client, RDS), [
      `${rds('empty/*')} absent`,
      `${rds('g/a')} current as served`,
      `${rds('g/named')} current as served`,
    ]);
    instance.directory.put(RDS, rds('g/a'), 'v2');
    instance.directory.put(RDS, rds('g/b'), 'v1');
    t.strictSame(rows(client, RDS).slice(1, 3), [`${rds('g/a')} older`, `${rds('g/b')} unsent`]);
    client.settle();
    t.strictSame(rows(client, RDS).slice(1, 3), [
      `${rds('g/a')} current as served`,
      `${rds('g/b')} current as served`,
    ]);
  }
  t.end();
});

t.test('the suffix of a version of endpoints is not another version', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  instance.directory.put(CDS, cds('a'), 'v1');
  instance.directory.put(EDS, eds('a'), 'v1');
  ask(client, CDS, cds('a'));
  ask(client, EDS, eds('a'));
  instance.directory.answer();
  client.settle();
  t.strictSame(rows(client, EDS), [`${eds('a')} current as served`]);
  t.end();
});

t.test('subscriptions of an unknown kind have no resources', (t) => {
  t.strictSame([...clientResources({} as SubscriptionsView)], []);
  t.end();
});
