/**
 * Goal: the table finds each row by authority and type, keeps the push order, and knows a cluster that any list of the
 * client contains.
 */
import t from 'tap';
import type { DeltaSubscriptions } from '../../../../../gateway/core/delta/delta-subscriptions.js';
import { SubscriptionTable } from '../../../../../gateway/core/delta/subscription-table.js';
import type { Standing } from '../../../../../gateway/core/delta/subscription.js';
import { typeRank } from '../../../../../protos/type-urls.js';
import { projectionOf } from '../../../../support/fake-directory.js';
import { CDS, cds, EDS, LDS } from '../../../../support/mesh-names.js';

const cluster = projectionOf(CDS, cds('a'), 'v1');
const { authority: home } = cluster.name;

const GLOB = 'a glob';

/** With a glob. @param standing of every cluster in these subscriptions */
function row(typeUrl: string, authority: string, standing: Standing, ...listKeys: string[]) {
  const collections = [...listKeys, GLOB].map(
    (key) => [key, { entry: { collection: `of ${key}` } }] as const,
  );
  const lists = new Set(collections.slice(0, -1).map(([, list]) => list));
  const subscribed = {
    lists,
    globs: new Map(collections),
    standingOf: () => standing,
    covers: () => standing !== 'not_asked',
  };
  const row = { typeUrl, authority, rank: typeRank(typeUrl), subscribed };
  return row as unknown as DeltaSubscriptions;
}

t.test('rows are in push order, and rows of one type in the order of their creation', (t) => {
  const table = new SubscriptionTable();
  const { all } = table;
  const rows = [
    row(LDS, 'x', 'not_asked'),
    row(CDS, 'x', 'not_asked'),
    row(EDS, 'x', 'not_asked'),
    row(CDS, 'y', 'not_asked'),
  ];
  for (const one of rows) t.equal(table.add(one), one);
  const order = () => all.map(({ typeUrl, authority }) => [typeUrl, authority]);
  t.strictSame(order(), [
    [CDS, 'x'],
    [CDS, 'y'],
    [EDS, 'x'],
    [LDS, 'x'],
  ]);
  t.equal(table.find(CDS, 'y'), rows[3]);
  t.equal(table.find(EDS, 'y'), undefined);
  t.equal(table.ofAuthority('x')?.size, 3);
  t.strictSame(table.allOf('x'), rows.slice(0, 3));
  t.strictSame(table.allOf('z'), []);
  table.delete(rows[3] as DeltaSubscriptions);
  t.equal(table.ofAuthority('y'), undefined, 'no empty authority stays');
  table.delete(rows[1] as DeltaSubscriptions);
  t.strictSame(order(), [
    [EDS, 'x'],
    [LDS, 'x'],
  ]);
  table.clear();
  t.strictSame([all.length, table.find(LDS, 'x')], [0, undefined]);
  t.end();
});

t.test('the lists of a type, and the other globs, are those of all its authorities', (t) => {
  const table = new SubscriptionTable();
  const one = table.add(row(CDS, 'x', 'not_asked', 'list 1', 'list 2'));
  table.add(row(EDS, 'x', 'not_asked', 'list 3'));
  const other = table.add(row(CDS, 'y', 'not_asked'));
  t.strictSame(table.listsOf(CDS), [
    { subscriptions: one, key: 'list 1', collection: 'of list 1' },
    { subscriptions: one, key: 'list 2', collection: 'of list 2' },
  ]);
  t.strictSame(table.globsOf(CDS), [
    { subscriptions: one, key: GLOB, collection: `of ${GLOB}` },
    { subscriptions: other, key: GLOB, collection: `of ${GLOB}` },
  ]);
  t.end();
});

/** A table of these rows. */
function tableOf(...rows: readonly DeltaSubscriptions[]): SubscriptionTable {
  const table = new SubscriptionTable();
  for (const one of rows) {
    table.add(one);
    if (one.subscribed.lists.size > 0) table.handleList(one);
  }
  return table;
}

t.test('a name is covered by its own authority, or by a list of any authority', (t) => {
  const isCovered = (...rows: DeltaSubscriptions[]): boolean =>
    tableOf(...rows).covers(CDS, cluster.name.key);
  t.notOk(isCovered());
  t.ok(isCovered(row(CDS, home, 'sent')));
  t.notOk(isCovered(row(EDS, home, 'sent')), 'another type');
  t.notOk(isCovered(row(CDS, 'other', 'sent')), 'another authority');
  t.ok(isCovered(row(CDS, 'other', 'sent', 'list')));
  t.notOk(isCovered(row(CDS, 'other', 'not_asked', 'list')), 'a list without it');
  t.notOk(isCovered(row(EDS, 'other', 'sent', 'list')), 'a list of another type');
  t.end();
});

t.test('a cluster is asked for by its own authority, or by a list of any authority', (t) => {
  const standing = (...rows: DeltaSubscriptions[]): Standing =>
    tableOf(...rows).standingOf(cluster);
  t.equal(standing(), 'not_asked');
  t.equal(standing(row(CDS, home, 'unsent')), 'unsent');
  t.equal(standing(row(CDS, 'other', 'sent')), 'not_asked', 'no list');
  t.equal(standing(row(CDS, 'other', 'sent', 'list')), 'sent');
  t.equal(standing(row(CDS, home, 'not_asked'), row(CDS, 'other', 'unsent', 'list')), 'unsent');
  t.equal(standing(row(CDS, home, 'sent'), row(CDS, 'other', 'unsent', 'list')), 'sent');
  t.equal(standing(row(EDS, 'other', 'sent', 'list')), 'not_asked', 'another type');
  t.end();
});
