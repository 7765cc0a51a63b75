/**
 * Goal: one client's stream of load reports writes at the pace of the client, ends when the client's node
 * group changes, and survives no bug of the gateway alone.
 * Method: the shell with a port of arrays, and load reports that the test plays.
 */
import t from 'tap';
import { DEFAULT_LIMITS } from '../../../../config/limits.js';
import { quotaLimitsOf } from '../../../../gateway/core/quotas/limits.js';
import { Quotas } from '../../../../gateway/core/quotas/quotas.js';
import { LongRequests } from '../../../../gateway/clients/long-requests.js';
import type { LoadReporter, ReportedCluster, WantedLoads } from '../../../../authorities/index.js';
import type { OldStyleSpec } from '../../../../config/model.js';
import {
  LoadReportStream,
  type LoadReportStreamEvent,
} from '../../../../gateway/clients/load-report-stream.js';
import { clientScopeOf, readGroupedNode } from '../../../../gateway/core/session/client-scope.js';
import { wholeOf } from '../../../../protos/discovery-fields.js';
import type { RpcStatus } from '../../../../protos/discovery.js';
import {
  decodeLoadStatsResponse,
  encodeLoadStatsRequest,
} from '../../../../protos/load-stats-codec.js';
import { encodeNode } from '../../../../protos/node-codec.js';
import type { NodeField } from '../../../../protos/node-scope.js';
import { scopeOfId } from '../../../support/federation-driver.js';
import { clusterLoad } from '../../../support/loads.js';

const oldStyleBy = (...differBy: readonly NodeField[]): OldStyleSpec => ({
  differBy,
  servedBy: [],
});

const NODE = encodeNode({ id: 'n', cluster: 'c', userAgentName: '', userAgentVersion: '' });

type Report = (clusters: readonly ReportedCluster[], goesOn: boolean) => readonly [];
const NO_UNKNOWN: Report = () => [];

function start(validForMs?: number, oldStyle = oldStyleBy('id')) {
  const written: unknown[] = [];
  const ends: (RpcStatus | undefined)[] = [];
  const events: LoadReportStreamEvent[] = [];
  const errors: unknown[] = [];
  const reporters = new Set<LoadReporter>();
  const state = {
    canWrite: true,
    intervalMs: 1_000,
    oldStyle,
    isOpening: true,
    nowMs: 0,
    report: NO_UNKNOWN,
  };
  const account = new Quotas(quotaLimitsOf(DEFAULT_LIMITS)).account('peer');
  const turns: (() => void)[] = [];
  const reading: string[] = [];
  const stream = new LoadReportStream({
    id: 1,
    port: {
      peer: 'p',
      userAgent: '',
      // As the transport: it drops the headers of a call that is open.
      headerValues: (key) => (key === 'x-team' && state.isOpening ? ['blue'] : []),
      certificate: undefined,
      ...(validForMs === undefined ? {} : { validForMs }),
      write: (message) => {
        written.push(decodeLoadStatsResponse(wholeOf(message), 10));
        return state.canWrite;
      },
      end: (status) => ends.push(status),
      pauseReading: () => reading.push('paused'),
      readOn: () => reading.push('on'),
    },
    loads: {
      open: (reporter) => reporters.add(reporter),
      leave: (reporter) => reporters.delete(reporter),
      report: (_reporter, clusters, goesOn) => state.report(clusters, goesOn),
      wanted: (): WantedLoads => ({
        kind: 'known',
        asked: { clusters: 'all', intervalMs: state.intervalMs, byEndpoint: false },
      }),
    },
    account,
    longRequests: new LongRequests('one_by_one', (work) => turns.push(work)),
    maxEntriesPerReport: 5_000,
    nodeGroupRoom: { maxNodeGroups: 10, scopeCount: 0, hasScope: () => false },
    oldStyle: () => state.oldStyle,
    knownName: () => undefined,
    clock: () => state.nowMs,
    onEvent: (_stream, event) => events.push(event),
    onError: (error) => errors.push(error),
  });
  state.isOpening = false;
  const send = (...names: readonly string[]): void => {
    const clusters = names.map((name) => clusterLoad(name, [{ successful: 1 }]));
    stream.handleMessage(encodeLoadStatsRequest({ node: NODE, clusters }));
  };
  const change = (intervalMs: number): void => {
    state.intervalMs = intervalMs;
    for (const { onWanted } of reporters) onWanted();
  };
  return {
    account,
    stream,
    state,
    written,
    ends,
    events,
    errors,
    reporters,
    send,
    change,
    turns,
    reading,
  };
}

t.test('the first request names the node group; each later change is written once', (t) => {
  const { written, reporters, send, change, events } = start();
  t.equal(reporters.size, 0);
  send();
  t.strictSame(
    [...reporters].map(({ scope }) => scope),
    [scopeOfId('n')],
  );
  change(1_000);
  send('shop');
  change(2_000);
  t.match(written, [{ message: { intervalMs: 1_000 } }, { message: { intervalMs: 2_000 } }]);
  t.equal(written.length, 2);
  t.match(events, [{ kind: 'opened' }, { kind: 'report', clusters: 1, unknown: [] }]);
  t.end();
});

t.test(
  "a report without clusters is passed on, since it ends the client's requests in progress",
  (t) => {
    const { state, send, events } = start();
    const reports: number[] = [];
    state.report = (clusters) => {
      reports.push(clusters.length);
      return [];
    };
    send();
    send('shop');
    send();
    t.strictSame(reports, [0, 1, 0]);
    t.match(
      events.filter(({ kind }) => kind === 'report'),
      [{ clusters: 1 }],
      'only one of them has clusters',
    );
    t.end();
  },
);

t.test(
  'load reports are of the node group that a header of the call tells (forward_headers)',
  (t) => {
    const fields = ['id'] as const;
    const headers = ['x-team'];
    const rule = {
      fields,
      wholeNode: false,
      headers,
      certificate: 'none',
      forward: undefined,
    } as const;
    const oldStyle: OldStyleSpec = { ...oldStyleBy('id'), rule };
    const { reporters, send } = start(undefined, oldStyle);
    send();
    const grouped = readGroupedNode(NODE, oldStyle, {
      headerValues: (key) => (key === 'x-team' ? ['blue'] : []),
      certificate: undefined,
    });
    const room = { maxNodeGroups: 10, scopeCount: 0, hasScope: () => false };
    t.match(clientScopeOf(grouped, oldStyle, room), {
      kind: 'scope',
      scope: [...reporters][0]?.scope,
    });
    t.end();
  },
);

t.test('a client that does not read gets the latest response only, once it reads', (t) => {
  const { stream, state, written, send, change } = start();
  state.canWrite = false;
  send();
  change(2_000);
  change(3_000);
  t.equal(written.length, 1);
  stream.handleDrain();
  t.match(written.slice(1), [{ message: { intervalMs: 3_000 } }]);
  t.end();
});

t.test('a new map that moves the client to another node group ends its stream', (t) => {
  const { stream, state, ends, reporters, send } = start();
  stream.endIfRegrouped();
  send();
  stream.endIfRegrouped();
  t.strictSame(ends, []);
  state.oldStyle = oldStyleBy('cluster');
  stream.endIfRegrouped();
  t.match(ends, [{ code: 14 }]);
  t.equal(reporters.size, 0);
  t.end();
});

t.test('the stream ends when the token of its client expires (docs/SECURITY.md)', (t) => {
  const { stream, state, ends, reporters, send } = start(2_000);
  send();
  state.nowMs = 1_999;
  stream.endIfDue();
  t.strictSame(ends, []);
  state.nowMs = 2_000;
  stream.endIfDue();
  stream.endIfDue();
  t.match(ends, [{ code: 16, message: 'the token of the client has expired' }]);
  t.equal(ends.length, 1);
  t.equal(reporters.size, 0);
  const forever = start();
  forever.state.nowMs = 1e12;
  forever.stream.endIfDue();
  t.strictSame(forever.ends, [], 'an identity without a token does not end');
  t.end();
});

t.test('a name that no source can have is dropped alone', (t) => {
  const { events, send } = start();
  send('xdstp://a b/x', 'shop');
  t.match(events.at(-1), { kind: 'report', clusters: 2, unknown: ['xdstp://a b/x'] });
  t.end();
});

t.test('an exception in the gateway ends this stream and is reported', (t) => {
  const { state, ends, errors, events, reporters, send } = start();
  send();
  state.report = () => {
    throw new Error('a bug');
  };
  send('shop');
  t.match(errors, [{ message: 'a bug' }]);
  t.match(ends, [{ code: 13 }]);
  t.equal(reporters.size, 0);
  send('shop');
  t.match(events.at(-1), { kind: 'closed' }, 'nothing follows');
  t.end();
});

t.test('a long report is handled in portions, in which its client is not read', (t) => {
  const { stream, state, send, turns, reading, events, reporters, account } = start();
  const portions: (readonly [number, boolean])[] = [];
  state.report = (clusters, goesOn) => {
    portions.push([clusters.length, goesOn]);
    return [];
  };
  const ids = Array.from({ length: 1_200 }, (_, at) => `${'x'.repeat(60)}${at}`);
  send(...ids);
  send('later');
  t.strictSame(reading, ['paused']);
  t.strictSame(portions, []);
  while (turns.length > 0) turns.shift()!();
  t.equal(account.held('buffered'), 0);
  t.strictSame(portions, [
    [500, false],
    [500, true],
    [200, true],
    [1, false],
  ]);
  t.match(events.slice(1), [
    { kind: 'report', clusters: 1_200 },
    { kind: 'report', clusters: 1 },
  ]);
  t.strictSame(reading, ['paused', 'on']);
  send(...ids);
  t.ok(account.held('buffered') > 65_536, 'it counts for its peer meanwhile');
  stream.handleClosed('gone');
  t.equal(account.held('buffered'), 0);
  while (turns.length > 0) turns.shift()!();
  t.equal(portions.length, 4, 'a client that has left reports nothing');
  t.equal(reporters.size, 0);
  t.end();
});

t.test('a report with too many entries ends the stream', (t) => {
  const { send, turns, ends } = start();
  send(...Array.from({ length: 5_001 }, () => 'shop'));
  while (turns.length > 0) turns.shift()!();
  t.match(ends, [{ code: 8 }]);
  t.end();
});
