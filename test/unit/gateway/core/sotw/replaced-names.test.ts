/**
 * Goal: a client that comes back to a process that has just started, and whose service moved to a new cluster meanwhile, gets
 * that cluster, although its source is silent about the old one (GRPC 7). Nothing else ends the wait for a held cluster.
 * Method: model clients that held clusters from an earlier process, and a clock.
 */
import t from 'tap';
import { FIRST_ANSWER_WAIT_MS } from '../../../../../gateway/core/sotw/responses.js';
import { CDS, cds } from '../../../../support/mesh-names.js';
import { Instance } from '../../../../support/session-driver.js';
import { said, SotwClient } from '../../../../support/sotw-driver.js';

const LONG_MS = FIRST_ANSWER_WAIT_MS * 100;

/** A client that held these clusters from an earlier process, and requests them from a new one. */
function resumed(...held: readonly string[]) {
  const before = new Instance();
  const instance = new Instance();
  const client = new SotwClient(before, { namesPerPortion: 1 });
  instance.betweenPortions = () => {
    instance.advance(10);
  };
  for (const text of held) if (!text.endsWith('*')) before.directory.put(CDS, text, 'v1');
  client.ask(CDS, ...held);
  before.directory.answer();
  client.settle();
  client.disconnect();
  client.reconnect(instance);
  instance.advance(60_000);
  const saidAfter = (ms: number): readonly unknown[] => {
    instance.advance(ms);
    return client.settle().map(said);
  };
  return { client, directory: instance.directory, saidAfter };
}

/** It followed a route and requests `added` too. The source answers for that only. */
function replaced(added: string, ...held: readonly string[]) {
  const { client, directory, saidAfter } = resumed(...held);
  directory.put(CDS, added, 'v1');
  client.ask(CDS, added, ...held);
  directory.answer(({ key }) => key === added);
  return { directory, saidAfter };
}

t.test(
  'a client that follows a route to a new cluster gets it after 3 s, though its source is silent about the old one (GRPC 7)',
  (t) => {
    const { directory, saidAfter } = replaced(cds('b'), cds('a'));
    t.strictSame(saidAfter(FIRST_ANSWER_WAIT_MS - 1), []);
    t.strictSame(saidAfter(1), [['Cluster', 'b=v1']]);
    directory.put(CDS, cds('a'), 'v1');
    directory.answer();
    t.strictSame(saidAfter(0), [['Cluster', 'a=v1', 'b=v1']], 'a late answer counts');
    t.end();
  },
);

t.test('a new cluster replaces no cluster of another authority, and no collection', (t) => {
  for (const held of [[cds('a', 'x')], [cds('a'), cds('a', 'x')], [cds('g/*'), cds('g/a')]]) {
    const { saidAfter } = replaced(cds('b'), ...held);
    t.strictSame(saidAfter(LONG_MS), []);
  }
  t.end();
});

t.test('a new cluster replaces none while its source is away (invariant 3)', (t) => {
  const { directory, saidAfter } = replaced(cds('b'), cds('a'));
  directory.isAway = true;
  t.strictSame(saidAfter(LONG_MS), []);
  t.end();
});

t.test('a name of the first request replaces nothing, however long (invariant 19)', (t) => {
  const { directory, saidAfter } = resumed(cds('a'), cds('b'));
  directory.put(CDS, cds('b'), 'v1');
  directory.answer(({ key }) => key === cds('b'));
  t.strictSame(saidAfter(LONG_MS), []);
  t.end();
});

t.test('nor does a name that the gateway reads in a later portion of that request', (t) => {
  const held = ['a', 'b', 'c', 'd', 'e', 'f'].map((id) => cds(id));
  const { directory, saidAfter } = resumed(...held);
  for (const text of held.slice(1)) directory.put(CDS, text, 'v1');
  directory.answer(({ key }) => key !== cds('a'));
  t.strictSame(saidAfter(LONG_MS), []);
  t.end();
});

t.test('a name that its source sent without content is not replaced (invariants 3, 19)', (t) => {
  const { directory, saidAfter } = replaced(cds('b'), cds('a'));
  directory.undecided.add(cds('a'));
  t.strictSame(saidAfter(LONG_MS), []);
  t.end();
});

t.test('a new name that no source has replaces nothing', (t) => {
  const { client, directory, saidAfter } = resumed(cds('a'));
  client.ask(CDS, cds('a'), cds('b'));
  directory.answer(({ key }) => key === cds('b'));
  t.strictSame(saidAfter(LONG_MS), []);
  t.end();
});
