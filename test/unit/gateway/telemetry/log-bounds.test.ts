/** Goal: no text of a client or source makes a log line long, many lines, or moves a terminal (CWE-117, CWE-150). */
import { pino } from 'pino';
import t from 'tap';
import type { ClientStream } from '../../../../gateway/clients/client-stream.js';
import { boundedFields, shownText } from '../../../../gateway/telemetry/line-fields.js';
import { hostOf, LineRate } from '../../../../gateway/telemetry/line-rate.js';
import { prettyLine } from '../../../../gateway/telemetry/log.js';
import { Telemetry } from '../../../../gateway/telemetry/telemetry.js';
import { joined } from '../../../support/metrics-text.js';

const HOSTILE = '\u001b[2J\u0007\u009b31m\u202e\u2028evil\r\nnext\tline\u007f';
/** All but the line feed that ends a line. */
// eslint-disable-next-line no-control-regex
const RAW_CONTROLS = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u202e]/;
const MAX_LINE_BYTES = 4_096;

function rig() {
  const lines: string[] = [];
  const now = { ms: 0 };
  const log = pino({ level: 'trace' }, { write: (line: string) => lines.push(line) });
  return { lines, now, telemetry: new Telemetry(log, { clock: () => now.ms }) };
}

const streamOf = (peer: string, node = 'n'): ClientStream =>
  ({
    id: 1,
    peer,
    flavour: 'delta',
    service: 'ads',
    node: { id: node, cluster: '' },
  }) as unknown as ClientStream;

t.test('control characters of clients reach no log line, in JSON and in the readable form', (t) => {
  const { lines, telemetry } = rig();
  const stream = streamOf('10.0.0.1:1', HOSTILE);
  telemetry.onClient(stream, { kind: 'malformed', reason: HOSTILE });
  telemetry.say('handler_error', { err: new Error(HOSTILE), [HOSTILE]: [HOSTILE] }, HOSTILE);
  t.equal(lines.length, 2);
  for (const line of lines) {
    t.notMatch(line, RAW_CONTROLS);
    t.notMatch(prettyLine(line), RAW_CONTROLS);
    t.match(line, 'evil');
  }
  t.equal(shownText('\u001b[2J\u009b'), '\\u{1b}[2J\\u{9b}');
  t.end();
});

t.test('a line has at most 4 KiB, however long the texts are, and says that it is cut', (t) => {
  const { lines, telemetry } = rig();
  const long = 'é"'.repeat(2_000_000);
  telemetry.onClient(streamOf('10.0.0.1:1', long), { kind: 'malformed', reason: long });
  const many = Array.from({ length: 10_000 }, (_, at) => `name ${at}`);
  telemetry.say('gateway_failed', { reason: long, many, more: { long, deep: { long } } });
  for (const line of lines) {
    t.ok(Buffer.byteLength(line) <= MAX_LINE_BYTES, `${Buffer.byteLength(line)} bytes`);
  }
  t.match(JSON.parse(lines[1] ?? ''), { cut: true, event: 'gateway_failed' });
  t.end();
});

t.test('lists of problems of the operator are never cut', (t) => {
  const { lines, telemetry } = rig();
  const problems = Array.from({ length: 100 }, (_, at) => `map.yaml:${at}:1: is wrong`);
  telemetry.say('map_refused', { problems });
  t.strictSame((JSON.parse(lines[0] ?? '') as { problems: unknown }).problems, problems);
  t.end();
});

t.test('fields within the bound stay unchanged', (t) => {
  const fields = { text: 'a', number: 1, no: false, none: null, list: ['b', { c: 2 }], big: 7n };
  t.strictSame(boundedFields({ ...fields, absent: undefined }, 1_000), { ...fields, big: '7' });
  const circle: Record<string, unknown> = {};
  circle['self'] = circle;
  t.match(JSON.stringify(boundedFields(circle, 1_000)), '…');
  t.end();
});

t.test(
  'one peer causes at most 10 lines of problems a second, and others are not affected',
  (t) => {
    const { lines, now, telemetry } = rig();
    const malformed = (peer: string, reason: string): void => {
      telemetry.onClient(streamOf(peer), { kind: 'malformed', reason });
    };
    for (let at = 0; at < 16_200; at++) malformed(`10.0.0.1:${at}`, `problem ${at}`);
    t.equal(lines.length, 10, 'also over many connections');
    malformed('10.0.0.2:1', 'another one');
    t.equal(lines.length, 11);
    now.ms = 1_000;
    malformed('10.0.0.1:1', 'new problem');
    t.equal(lines.length, 12, 'the next second');
    t.end();
  },
);

t.test('one host causes at most 100 lines of opened and closed streams a second', async (t) => {
  const { lines, telemetry } = rig();
  for (let at = 0; at < 1_000; at++) {
    telemetry.onClient(streamOf(`10.0.0.1:${at}`), { kind: 'opened' });
    telemetry.onClient(streamOf(`10.0.0.1:${at}`), { kind: 'closed', reason: 'gone' });
  }
  t.equal(lines.length, 100);
  t.match(await joined(telemetry.metricsPieces()), /tributary_log_lines_withheld_total 1900/);
});

t.test('the host of a peer has no port', (t) => {
  t.equal(hostOf('10.0.0.1:80'), '10.0.0.1');
  t.equal(hostOf('[::1]:80'), '[::1]');
  t.equal(hostOf('unix'), 'unix');
  const rate = new LineRate(1);
  t.strictSame(
    [rate.take('a', 0), rate.take('a', 999), rate.take('a', 1_000)],
    [true, false, true],
  );
  t.end();
});
