/**
 * Goal: `rate_limit_settings` of a ConfigSource hold back requests, in order, and nothing else.
 * Method: a bucket that fills quickly; each written request is an event to wait for.
 */
import t from 'tap';
import { RequestPacer } from '../../../authorities/request-pacer.js';

function start(limit: { maxTokens: number; fillRatePerSecond: number } | undefined) {
  const written: string[] = [];
  let told: () => void = () => undefined;
  const pacer = new RequestPacer(limit, (bytes) => {
    written.push(Buffer.from(bytes).toString());
    told();
  });
  const send = (...texts: readonly string[]): void => {
    for (const text of texts) pacer.send(Buffer.from(text));
  };
  const until = async (count: number): Promise<void> => {
    while (written.length < count) await new Promise<void>((resolve) => (told = resolve));
  };
  return { pacer, written, send, until };
}

t.test('without a limit everything goes at once', (t) => {
  const { written, send } = start(undefined);
  send('a', 'b', 'c');
  t.strictSame(written, ['a', 'b', 'c']);
  t.end();
});

t.test('a full bucket goes at once, the rest in order at the fill rate', async (t) => {
  const { written, send, until } = start({ maxTokens: 2, fillRatePerSecond: 200 });
  const startedMs = performance.now();
  // The timer keeps no process alive; the test has to.
  const alive = setInterval(() => undefined, 1_000);
  t.teardown(() => {
    clearInterval(alive);
  });
  send('a', 'b', 'c', 'd');
  t.strictSame(written, ['a', 'b']);
  await until(4);
  t.strictSame(written, ['a', 'b', 'c', 'd']);
  t.ok(performance.now() - startedMs >= 9, 'two tokens take 10 ms');
});

t.test('what waits for a stream that ended is never said on the next one', (t) => {
  const { pacer, written, send } = start({ maxTokens: 1, fillRatePerSecond: 0.001 });
  send('a', 'b');
  pacer.clear();
  send('c');
  t.strictSame(written, ['a'], 'the bucket is empty still');
  pacer.clear();
  t.end();
});
