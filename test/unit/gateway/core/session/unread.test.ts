/**
 * Goal: while the clients of a peer do not read what they were sent, others of the peer go on, with responses that
 * cost little memory (docs/SECURITY.md, "Quotas").
 */
import t from 'tap';
import { CDS, EDS, SDS, cds, eds, sds } from '../../../../support/mesh-names.js';
import { Instance } from '../../../../support/session-driver.js';
import { SotwClient } from '../../../../support/sotw-driver.js';

const CONTENT = 'x'.repeat(6_000);

function start() {
  const unread = { isFull: true };
  const isBufferFull = (): boolean => unread.isFull;
  return { unread, isBufferFull };
}

t.test('delta: the next responses are small, and bring everything', (t) => {
  const { unread, isBufferFull } = start();
  const instance = new Instance({ isBufferFull });
  for (let at = 0; at < 10; at++) instance.directory.put(SDS, sds(`g/${at}`), CONTENT);
  const client = instance.connect();
  client.subscribe(SDS, sds('g/*'));
  instance.directory.answer();
  t.equal(client.poll()?.resources.length, 3);
  unread.isFull = false;
  t.equal(client.poll()?.resources.length, 7, 'with room, the rest comes at once');
  t.end();
});

t.test(
  'state of the world: endpoints come in small responses, the whole set of clusters waits',
  (t) => {
    const { unread, isBufferFull } = start();
    const instance = new Instance();
    const client = new SotwClient(instance, { isBufferFull });
    const ids = [...Array(10).keys()];
    for (const id of ids) instance.directory.put(EDS, eds(`e${id}`), CONTENT);
    instance.directory.put(CDS, cds('a'), 'v1');
    client.ask(CDS, cds('a'));
    client.ask(EDS, ...ids.map((id) => eds(`e${id}`)));
    instance.directory.answer();
    const first = client.settle();
    t.equal(first.length, 4);
    t.ok(first.every(({ typeUrl, resources }) => typeUrl === EDS && resources.length <= 3));
    t.equal(client.type(EDS).held.size, 10);
    t.equal(client.session.nextDeadlineMs, instance.nowMs + 100, 'it looks again');
    instance.advance(100);
    t.equal(client.poll(), undefined);
    unread.isFull = false;
    instance.advance(100);
    t.match(client.poll(), { typeUrl: CDS });
    t.end();
  },
);
