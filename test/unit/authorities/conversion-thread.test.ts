/**
 * Goal: large resources are converted on another thread, in order, and a thread that ends fails its tasks alone.
 * Method: real threads.
 */
import t from 'tap';
import { ConversionThread } from '../../../authorities/conversion-thread.js';
import type { ParsedText } from '../../../authorities/core/sources/good-files.js';
import type { Converted } from '../../../protos/rest-client-json.js';
import type { ResourceFromJson } from '../../../protos/rest-source-json.js';
import { TYPE_URL } from '../../../protos/type-urls.js';
import { until } from '../../support/until.js';

const CLUSTER = { '@type': TYPE_URL.cluster, name: 'a' };
const JSON_TEXT = JSON.stringify(CLUSTER);
/** A `resources` field begins with its tag and length; the rest is an Any. */
const FIELD_HEAD = 2;

const fromJson = (thread: ConversionThread, text: string): Promise<Converted<ResourceFromJson>> =>
  new Promise((resolve) => {
    thread.fromJson(text, resolve);
  });
const toJson = (thread: ConversionThread, bytes: Uint8Array): Promise<Converted<Uint8Array>> =>
  new Promise((resolve) => {
    thread.toJson(bytes, resolve);
  });

t.test('a resource is converted both ways, and the thread ends when it is idle', async (t) => {
  const thread = new ConversionThread(undefined, 1);
  t.notOk(thread.isStarted);
  const [read, unreadable] = await Promise.all([
    fromJson(thread, JSON_TEXT),
    fromJson(thread, '{'),
  ]);
  t.strictSame(unreadable, { ok: false, reason: 'the body is not JSON' });
  if (!read.ok) throw new Error(read.reason);
  t.notOk(read.value.hasTtl);
  const any = read.value.bytes.subarray(FIELD_HEAD);
  const written = await toJson(thread, any);
  t.strictSame(JSON.parse(written.ok ? Buffer.from(written.value).toString() : ''), CLUSTER);
  t.ok(any.length > 0, 'the caller keeps its bytes');
  t.match(await toJson(thread, Buffer.from([0xff])), { ok: false });
  await until('the thread ends', () => !thread.isStarted);
  t.ok((await fromJson(thread, JSON_TEXT)).ok, 'and starts again');
});

t.test(
  'a thread that ends fails what it was asked, and the next task starts another',
  async (t) => {
    const thread = new ConversionThread(new URL('data:text/javascript,process.exit(3)'));
    const results = await Promise.all([fromJson(thread, JSON_TEXT), toJson(thread, Buffer.of())]);
    const reason = 'the thread that converts it ended: exit code 3';
    t.strictSame(results, [
      { ok: false, reason },
      { ok: false, reason },
    ]);
    t.notOk(thread.isStarted);
    const broken = new ConversionThread(new URL('data:text/javascript,throw new Error("why")'));
    t.match(await fromJson(broken, ''), { ok: false, reason: /ended: why/ });
  },
);

t.test(
  'a task that ends the thread fails alone: the others are converted by another one',
  async (t) => {
    const script = `
    import { parentPort } from 'node:worker_threads';
    parentPort.on('message', (task) => {
      if (task === 'bad') process.exit(3);
      parentPort.postMessage({ result: { ok: true, value: task }, isMore: false });
    });`;
    const thread = new ConversionThread(
      new URL(`data:text/javascript,${encodeURIComponent(script)}`),
    );
    t.teardown(() => {
      thread.end();
    });
    const results = await Promise.all(
      ['a', 'bad', 'b', 'bad', 'c'].map((text) => fromJson(thread, text)),
    );
    t.match(results, [
      { ok: true, value: 'a' },
      { ok: false, reason: /exit code 3/ },
      { ok: true, value: 'b' },
      { ok: false },
      { ok: true, value: 'c' },
    ]);
  },
);

t.test('a file is read in pieces, with its problems', async (t) => {
  const thread = new ConversionThread();
  t.teardown(() => {
    thread.end();
  });
  const parse = (text: string): Promise<ParsedText> =>
    new Promise((resolve) => {
      thread.parseFile({ path: '/srv/x.yaml', text }, resolve);
    });
  const clusters = Array.from({ length: 4_001 }, (_, at) => ({ ...CLUSTER, name: `c${at}` }));
  const all = await parse(clusters.map((cluster) => JSON.stringify(cluster)).join('\n---\n'));
  t.ok(all.ok);
  t.strictSame(
    all.resources.map(({ name }) => name),
    clusters.map(({ name }) => name),
  );
  t.match(await parse('resources: ['), {
    ok: false,
    problems: [/^\/srv\/x.yaml:1:/],
    resources: [],
  });
  t.strictSame(await parse(''), { ok: true, resources: [] });
  const broken = new ConversionThread(new URL('data:text/javascript,process.exit(3)'));
  const failed = new Promise((resolve) => {
    broken.parseFile({ path: '/srv/x.yaml', text: '' }, resolve);
  });
  t.match(await failed, { ok: false, problems: [/^\/srv\/x.yaml: cannot be read: .*exit code 3/] });
});

t.test('a thread that cannot start fails each task, and no later one', async (t) => {
  // Node.js throws at once, as where the system has no room for a thread.
  const thread = new ConversionThread(new URL('http://none.test'));
  const results = await Promise.all([fromJson(thread, 'a'), toJson(thread, Buffer.of())]);
  for (const result of results)
    t.match(result, { ok: false, reason: /^the thread .* cannot start: / });
  t.notOk(thread.isStarted);
});
