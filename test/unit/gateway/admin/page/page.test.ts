/** Goal: the page shows what others send as text only, is bounded, and signs in without giving away the token. */
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import {
  clientsChoiceOf,
  clientsSection,
} from '../../../../../gateway/admin/page/clients-section.js';
import { html } from '../../../../../gateway/admin/page/html.js';
import { MAX_FOLLOWERS, PageEvents } from '../../../../../gateway/admin/page/page-events.js';
import { Sessions } from '../../../../../gateway/admin/page/sign-in.js';
import type { AdminContext, AdminRequest } from '../../../../../gateway/admin/reply.js';
import { answer } from '../../../../../gateway/admin/routes.js';
import type { GatewayView } from '../../../../../gateway/gateway-view.js';
import { Switches, type Switch } from '../../../../../gateway/telemetry/switches.js';
import { Telemetry } from '../../../../../gateway/telemetry/telemetry.js';

const SWITCH: Switch = {
  atMs: 0,
  authority: 'a',
  group: 'a',
  direction: 'failover',
  reason: 'primary_lost',
  from: 'one',
  to: 'two',
  changed: 1,
  kept: 2,
  sinceLossMs: 1_500,
  detail: '<refused>',
};

const client = (id: string) => ({
  id,
  node: { id, cluster: 'edge' },
  requester: { identity: { kind: 'anonymous' } },
  openedAtMs: 0,
  session: { nameCount: 0 },
  rejections: [],
});

function contextWith(clients: readonly unknown[] = [], clock = () => 0): AdminContext {
  const telemetry = new Telemetry(pino({ level: 'silent' }));
  const groups: readonly unknown[] = [];
  const view = {
    groups,
    groupsOf: () => groups,
    groupFor: () => undefined,
    map: { authorities: new Map(), sources: new Map() },
  };
  const gateway = {
    upstream: { view },
    cache: { stateOf: () => undefined },
    server: { clients: () => clients },
    peers: { instance: 'i' },
    phase: 'serving',
  };
  return { gateway: gateway as unknown as GatewayView, telemetry, listenHost: '127.0.0.1', clock };
}

const get = (path: string, query = '', accept?: string): AdminRequest => ({
  method: 'GET',
  path,
  rawQuery: query,
  query: new URLSearchParams(query),
  headers: accept === undefined ? {} : { accept },
});

t.test('no text of others leaves its place in the HTML', (t) => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.constantFrom('<b>', '"x', "'y", '&lt;')), (text) => {
      const shown = html`${text}`.text;
      return !/[<>"']/.test(shown) && !/&(?!amp;|lt;|gt;|quot;|#39;)/.test(shown);
    }),
  );
  t.equal(
    html`<b>${html`<i>${'<'}</i>`}${undefined}${[html`1`, html`2`]}</b>`.text,
    '<b><i>&lt;</i>12</b>',
  );
  t.end();
});

t.test(
  '`/` is the page for a browser, under a strict policy, and a list of endpoints for others',
  async (t) => {
    const page = await answer(contextWith(), get('/', '', 'text/html,*/*;q=0.8'));
    t.match(page, { status: 200, contentType: /^text\/html/ });
    const policy = page.headers?.['content-security-policy'] ?? '';
    t.match(policy, "default-src 'none'; style-src 'sha256-");
    t.notMatch(policy, /unsafe|https?:/);
    t.notMatch(page.body, /(src|href)="https?:|style="|onclick/);
    for (const accept of [undefined, '*/*', 'application/json']) {
      t.type(
        (
          JSON.parse((await answer(contextWith(), get('/', '', accept))).body) as {
            endpoints: unknown;
          }
        ).endpoints,
        Array,
      );
    }
  },
);

t.test('any query gives a page', async () => {
  const keys = fc.constantFrom('name', 'type', 'page', 'only', 'node');
  const query = fc.array(
    fc.tuple(keys, fc.oneof(fc.string(), fc.constantFrom('xdstp://a/t/x', '-1', '1e9'))),
  );
  await fc.assert(
    fc.asyncProperty(query, async (pairs) => {
      const text = new URLSearchParams(pairs).toString();
      const { status } = await answer(contextWith([client('n')]), get('/', text, 'text/html'));
      return status === 200;
    }),
    { numRuns: 100 },
  );
});

t.test('clients come in pages of 50; a page beyond the last is the last', (t) => {
  const context = contextWith(Array.from({ length: 101 }, (_, at) => client(`node-${at}`)));
  const shown = (query: string): string =>
    clientsSection(context, clientsChoiceOf(new URLSearchParams(query))).content.text;
  t.match(shown(''), /node-49<[^]*page 1 of 3/);
  t.notMatch(shown(''), 'node-50<');
  t.match(shown('page=9'), /node-100<[^]*page 3 of 3/);
  t.match(shown('page=-1'), 'page 1 of 3');
  t.match(shown('node=node-10'), /node-100<[^]*page 1 of 1/);
  t.match(shown('only=rejecting'), '101 clients');
  t.end();
});

t.test(
  'a cookie of the page ends after 12 hours and with the token, and cannot be changed',
  (t) => {
    let token = Buffer.from('one');
    const sessions = new Sessions(() => token, true);
    const set = sessions.cookie(1_000);
    t.match(set, /; HttpOnly; SameSite=Strict; Secure$/);
    const [cookie = ''] = set.split(';');
    const others = `a=b; ${cookie}; c=d`;
    t.ok(sessions.allows({ cookie: others }, 1_000 + 12 * 3_600 - 1));
    t.notOk(sessions.allows({ cookie }, 1_000 + 12 * 3_600), 'it has ended');
    t.notOk(sessions.allows({ cookie: cookie.replace('=4', '=5') }, 1_000), 'another end');
    t.notOk(sessions.allows({ cookie: `${cookie}x` }, 1_000));
    t.notOk(sessions.allows({}, 1_000));
    t.notOk(new Sessions(() => token, true).allows({ cookie }, 1_000), 'another process');
    token = Buffer.from('two');
    t.notOk(sessions.allows({ cookie }, 1_000), 'another token');
    t.end();
  },
);

class Browser extends EventEmitter {
  readonly got: string[] = [];
  destroyed = false;
  writableNeedDrain = false;
  write(text: string): void {
    this.got.push(text);
  }
}

function follow(t: Test, events: PageEvents): Browser | undefined {
  const browser = new Browser();
  const start = events.admit(new URLSearchParams());
  if (!start) return undefined;
  start(browser as unknown as ServerResponse);
  t.teardown(() => browser.emit('close'));
  return browser;
}

t.test('16 browsers follow the page, the next one is refused until one leaves', async (t) => {
  const events = new PageEvents(contextWith());
  const browsers = Array.from({ length: MAX_FOLLOWERS }, () => follow(t, events));
  t.equal(follow(t, events), undefined);
  const context = { ...contextWith(), pageEvents: events };
  t.match(await answer(context, get('/events')), { status: 503, body: /too many pages/ });
  browsers[0]?.emit('close');
  t.ok(follow(t, events));
  const gone = Object.assign(new Browser(), { destroyed: true });
  browsers[1]?.emit('close');
  events.admit(new URLSearchParams())?.(gone as unknown as ServerResponse);
  t.equal(events.count, MAX_FOLLOWERS - 1, 'a browser that left before its stream takes no place');
});

t.test('a browser gets each section once, then only what changed, as text', async (t) => {
  const context = contextWith();
  const events = new PageEvents(context);
  const browser = follow(t, events);
  await nextTurn();
  t.equal(browser?.got.length, 1);
  t.equal(browser?.got[0]?.match(/^event: section$/gm)?.length, 5);
  context.telemetry.switches.add(SWITCH);
  await nextTurn();
  t.equal(browser?.got.length, 2);
  t.match(
    browser?.got[1],
    /^event: section\ndata: {"id":"switches","html":".*one → two.*1\.5 s.*&lt;refused&gt;.*"}\n\n$/,
  );
});

t.test(
  'a quiet stream has a comment every 10 s, before the connection counts as silent',
  async (t) => {
    let nowMs = 0;
    const context = contextWith([], () => nowMs);
    const events = new PageEvents(context);
    const browser = follow(t, events);
    await nextTurn();
    nowMs = 10_000;
    const second = follow(t, events);
    await nextTurn();
    t.equal(browser?.got[1], ':\n\n');
    t.equal(second?.got.length, 1);
  },
);

t.test(
  'a browser that does not read gets nothing until it does, then the newest state',
  async (t) => {
    const context = contextWith();
    const events = new PageEvents(context);
    const browser = follow(t, events)!;
    await nextTurn();
    browser.writableNeedDrain = true;
    for (let at = 0; at < 100; at++) context.telemetry.switches.add(SWITCH);
    await nextTurn();
    t.equal(browser.got.length, 1);
    browser.writableNeedDrain = false;
    context.telemetry.switches.add({ ...SWITCH, to: 'newest' });
    await nextTurn();
    t.match(browser.got[1], 'newest');
  },
);

t.test('memory keeps the last 500 switches, and gives the newest first', (t) => {
  const switches = new Switches();
  let heard = 0;
  const end = switches.listen(() => heard++);
  for (let atMs = 0; atMs < 600; atMs++) switches.add({ ...SWITCH, atMs });
  end();
  switches.add(SWITCH);
  t.equal(heard, 600);
  t.equal(switches.latest(1_000).length, 500);
  t.equal(switches.latest(2)[1]?.atMs, 599);
  t.end();
});
