/**
 * Goal: a watch tells every change, the latest content to a slow reader, and ends with its connection.
 * Method: a cache with a directory, and a reader that the test controls.
 */
import type { ServerResponse } from 'node:http';
import { once } from 'node:events';
import { PassThrough, type Writable } from 'node:stream';
import t from 'tap';
import { openChangeFeed } from '../../../../gateway/admin/change-feed.js';
import type { AdminContext, AdminRequest } from '../../../../gateway/admin/reply.js';
import { watch } from '../../../../gateway/admin/watch.js';
import { nameOf } from '../../../support/fake-directory.js';
import { CDS, cds } from '../../../support/mesh-names.js';
import { Instance } from '../../../support/session-driver.js';

function feedOf(instance: Instance, name: string) {
  const calls = { ready: 0 };
  const feed = openChangeFeed(instance.cache, CDS, nameOf(name), () => calls.ready++);
  const kinds = (): readonly string[] =>
    feed
      .take()
      .map(({ kind, name: of, count }) =>
        `${kind} ${of.split('/').at(-1) ?? ''} ${count ?? ''}`.trim(),
      );
  return { feed, calls, kinds };
}

t.test('a name: nothing until it is answered, then each version once (OPERATIONS)', (t) => {
  const instance = new Instance();
  const { feed, calls, kinds } = feedOf(instance, cds('a'));
  t.strictSame(kinds(), []);
  instance.directory.put(CDS, cds('a'), 'v1');
  instance.directory.answer();
  t.ok(calls.ready > 0);
  t.strictSame(kinds(), ['present a']);
  t.strictSame(kinds(), []);
  instance.directory.put(CDS, cds('a'), 'v2');
  instance.directory.put(CDS, cds('a'), 'v3');
  t.equal(feed.take().length, 1, 'the latest content wins');
  instance.directory.remove(CDS, cds('a'));
  t.strictSame(kinds(), ['absent a']);
  const { ready } = calls;
  feed.close(0);
  instance.directory.put(CDS, cds('a'), 'v4');
  t.equal(calls.ready, ready, 'closed');
  t.end();
});

t.test(
  'a glob: its members, once that it is complete, and removals of shown members (OPERATIONS)',
  (t) => {
    const instance = new Instance();
    const { feed, kinds } = feedOf(instance, cds('g/*'));
    for (let id = 0; id < 600; id++) instance.directory.put(CDS, cds(`g/${id}`), 'v1');
    instance.directory.answer();
    t.equal(kinds().length, 500, 'a piece');
    const rest = kinds();
    t.equal(rest.length, 101);
    t.equal(rest.at(-1), 'complete * 600');
    instance.directory.put(CDS, cds('g/new'), 'v1');
    instance.directory.remove(CDS, cds('g/new'));
    t.strictSame(kinds(), [], 'it was never told');
    instance.directory.remove(CDS, cds('g/1'));
    t.strictSame(kinds(), ['absent 1']);
    instance.directory.remove(CDS, cds('g/2'));
    instance.directory.put(CDS, cds('g/2'), 'v2');
    t.strictSame(kinds(), ['present 2']);
    for (let id = 0; id < 600; id++) instance.directory.remove(CDS, cds(`g/${id}`));
    t.equal(kinds().length, 500);
    t.equal(kinds().length, 99);
    feed.close(0);
    t.end();
  },
);

function contextOf(instance: Instance): AdminContext {
  const group = { served: () => undefined, candidates: [] };
  const view = { groupFor: () => group, map: { authorities: new Map() } };
  const gateway = { cache: instance.cache, upstream: { view } };
  const telemetry = { onHandlerError: (error: unknown) => t.fail(String(error)) };
  return { gateway, telemetry, clock: () => 0, listenHost: '' } as unknown as AdminContext;
}

const requestFor = (urn: string, accept?: string): AdminRequest => ({
  method: 'GET',
  path: `/watch/${urn}`,
  query: new URLSearchParams(),
  rawQuery: '',
  headers: accept === undefined ? {} : { accept },
});

/** A watch writes in the turn after a change. */
async function afterTurns(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise(setImmediate);
}

t.test('a slow reader gets the latest content when it reads again (LIMITS)', async (t) => {
  const instance = new Instance();
  const out = new PassThrough({ highWaterMark: 1 });
  const reply = watch(contextOf(instance), requestFor(cds('a'), 'text/event-stream'));
  t.match(reply, { status: 200, contentType: 'text/event-stream' });
  reply.goOn?.(out as unknown as ServerResponse);
  instance.directory.put(CDS, cds('a'), 'v1');
  instance.directory.answer();
  await afterTurns();
  instance.directory.put(CDS, cds('a'), 'v2');
  await afterTurns();
  instance.directory.put(CDS, cds('a'), 'v3');
  await afterTurns();
  let text = '';
  const whole = new Promise<void>((resolve) => {
    out.on('data', (bytes: Buffer) => {
      text += bytes.toString();
      if (text.match(/^data: \{/gm)?.length === 2) resolve();
    });
  });
  await whole;
  t.match(text, /^data: \{.*"kind":"present".*\}\n\ndata: \{.*\}\n\n$/);
  out.destroy();
  await once(out, 'close');
});

t.test('at most 64 watches are open, and a closed one makes room (LIMITS)', async (t) => {
  const instance = new Instance();
  const context = contextOf(instance);
  const outs: Writable[] = [];
  for (let id = 0; id < 64; id++) {
    const out = new PassThrough();
    watch(context, requestFor(cds('a'))).goOn?.(out as unknown as ServerResponse);
    outs.push(out);
  }
  t.match(watch(context, requestFor(cds('a'))), { status: 503, body: /64 watches are open/ });
  outs[0]?.destroy();
  await once(outs[0] as Writable, 'close');
  t.equal(watch(context, requestFor(cds('a'))).status, 200);
  for (const out of outs) out.destroy();
});
