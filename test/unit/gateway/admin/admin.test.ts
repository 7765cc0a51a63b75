/** Goal: the admin side refuses invalid requests with a reason, and no request makes it throw. */
import fc from 'fast-check';
import { pino } from 'pino';
import t from 'tap';
import { answer } from '../../../../gateway/admin/routes.js';
import type { AdminContext, AdminRequest } from '../../../../gateway/admin/reply.js';
import type { GatewayView } from '../../../../gateway/gateway-view.js';
import type { ResourceName } from '../../../../protos/resource-name.js';
import { Telemetry } from '../../../../gateway/telemetry/telemetry.js';

const group = {
  id: 'a',
  spec: { name: 'a' },
  candidates: [],
  demandCount: 1,
  servedCount: 0,
  guardedCount: 0,
  failover: { kind: 'connecting', sinceMs: 0, cause: 'subscribed', active: 0, target: null },
};

function context(phase = 'serving', maxMs = 0, groups: readonly unknown[] = []): AdminContext {
  const telemetry = new Telemetry(pino({ level: 'silent' }));
  telemetry.lag.recent = () => ({ p99Ms: 0, maxMs });
  const federation = {
    groups,
    groupsOf: () => groups,
    groupFor: ({ authority }: ResourceName) => (authority === 'a' ? groups[0] : undefined),
    nodeGroups: { all: [], of: () => undefined },
    servers: [],
    map: {
      authorities: new Map([['a', {}]]),
      sources: new Map(),
      oldStyle: { servedBy: [{ name: 'old-style/0' }] },
    },
  };
  const cache = { names: () => [], globs: () => [], nameCount: 0, globCount: 0 };
  const upstream = { view: federation, breakerState: () => undefined };
  const peers = {
    instance: 'i',
    digest: () => [],
    invalidate: () => false,
    invalidateAuthority: () => 2,
  };
  const gateway = {
    upstream,
    cache,
    server: { streams: new Set(), polling: [], clients: () => [] },
    peers,
    phase,
  };
  return {
    gateway: gateway as unknown as GatewayView,
    telemetry,
    listenHost: '127.0.0.1',
    clock: () => 0,
  };
}

function request(method: string, url: string, headers: AdminRequest['headers'] = {}): AdminRequest {
  const [path = '', query] = url.split('?');
  const rawQuery = query === undefined ? '' : `?${query}`;
  return { method, path, rawQuery, query: new URLSearchParams(rawQuery), headers };
}

async function ask(method: string, url: string, headers: AdminRequest['headers'] = {}) {
  return answer(context(), request(method, url, headers));
}

t.test('endpoints that change something are POST only: GET is 405 with Allow', async (t) => {
  t.match(await ask('GET', '/authorities/a/force?source=s'), {
    status: 405,
    headers: { allow: 'POST' },
  });
  t.match(await ask('DELETE', '/logging'), { status: 405, headers: { allow: 'GET, POST' } });
  t.match(await ask('POST', '/metrics'), { status: 405 });
});

t.test('a web page of another origin changes nothing (403)', async (t) => {
  const host = '127.0.0.1:18900';
  const level = (headers: AdminRequest['headers']) => ask('POST', '/logging?level=debug', headers);
  t.equal((await level({ host })).status, 200, 'no browser');
  t.equal(
    (await level({ host, origin: `http://${host}` })).status,
    200,
    'a page of the admin side itself',
  );
  t.equal((await level({ host, origin: 'http://evil.example' })).status, 403);
  t.equal((await level({ host, origin: 'null' })).status, 403);
  t.equal((await level({ host, 'sec-fetch-site': 'cross-site' })).status, 403);
  const rebound = { host: 'evil.example:18900', origin: 'http://evil.example:18900' };
  t.equal((await level(rebound)).status, 403, 'a name that was rebound to loopback');
});

t.test('a page that rebound its name to loopback reads nothing (403)', async (t) => {
  t.equal((await ask('GET', '/clients', { host: 'evil.example:18900' })).status, 403);
  t.equal((await ask('GET', '/clients', { host: 'localhost:18900' })).status, 200);
  const open = { ...context(), listenHost: '0.0.0.0' };
  const byName = request('GET', '/clients', { host: 'gateway.example:18900' });
  t.equal((await answer(open, byName)).status, 200, 'not on loopback: host names are expected');
});

t.test(
  '/ready gives the reasons: starting, draining, a stall over 1 s, an authority without a response',
  async (t) => {
    const ready = async (...args: Parameters<typeof context>) => {
      const { status, body } = await answer(context(...args), request('GET', '/ready'));
      return { status, ...(JSON.parse(body) as { reasons: readonly string[] }) };
    };
    t.match(await ready(), { status: 200, reasons: [] });
    t.match(await ready('starting'), { status: 503, reasons: [/starting/] });
    t.match(await ready('draining'), { status: 503, reasons: [/draining/] });
    t.match(await ready('serving', 1_200), { status: 503, reasons: [/stalled for 1200 ms/] });
    t.match(await ready('serving', 0, [group]), { status: 503, reasons: [/"a".*connecting/] });
    const held = { ...group, servedCount: 1 };
    t.match(await ready('serving', 0, [held]), { status: 200 });
    t.match(
      await ready('serving', 0, [group, held]),
      { status: 200 },
      'one client affects no other',
    );
    const cached = { ...group, failover: { ...group.failover, kind: 'cached' } };
    t.match(await ready('serving', 0, [cached]), {
      status: 200,
      degraded: [/^group a: no source is in use/],
    });
    const unwritten = context();
    const file = '/state/names.json';
    unwritten.telemetry.onCollectionMemory({ kind: 'write_failed', file, reason: 'full' });
    const { body } = await answer(unwritten, request('GET', '/ready'));
    t.match(JSON.parse(body), {
      ready: true,
      degraded: [`state file ${file}: cannot be written: full`],
    });
  },
);

t.test('errors name the correction', async (t) => {
  t.match((await ask('GET', '/nope')).body, 'GET / lists all endpoints');
  t.match((await ask('POST', '/logging?level=debgu')).body, 'did you mean');
  t.match((await ask('POST', '/logging?level=loud')).body, '\\"loud\\" is not a log level');
  t.match((await ask('POST', '/logging')).body, 'level is not set');
  t.match((await ask('POST', '/authorities/b/force?source=s')).body, 'no authority');
  t.match(await ask('POST', '/authorities/a/force?source=s'), { status: 409 });
});

t.test('no path makes it throw', async () => {
  const prefixes = [
    '/resources/',
    '/explain/',
    '/watch/',
    '/authorities/',
    '/authorities/a/',
    '/',
    '',
  ];
  const url = fc
    .tuple(fc.constantFrom(...prefixes), fc.oneof(fc.string(), fc.string({ unit: 'binary' })))
    .map(([prefix, rest]) => prefix + rest);
  await fc.assert(
    fc.asyncProperty(fc.constantFrom('GET', 'POST', 'PUT'), url, async (method, path) => {
      const { status } = await ask(method, path);
      return status >= 200 && status < 500;
    }),
    { numRuns: 300 },
  );
});

t.test('an invalidation names exactly one existing name or authority', async (t) => {
  const ask = async (method: string, url: string) =>
    answer(context('serving', 0, [{}]), request(method, url));
  const name = encodeURIComponent('xdstp://a/test.v1.T/x');
  t.match(await ask('POST', `/invalidate?name=${name}`), { status: 200 });
  const whole = await ask('POST', '/invalidate?authority=a');
  t.strictSame(JSON.parse(whole.body), {
    invalidated: { authority: 'a' },
    askedHere: true,
    toldOthers: false,
  });
  const other = encodeURIComponent('xdstp://b/test.v1.T/x');
  t.match(await ask('POST', `/invalidate?name=${other}`), { status: 404 });
  t.match(await ask('POST', '/invalidate?authority=b'), { status: 404 });
  t.match(await ask('POST', '/invalidate?authority=old-style/0'), { status: 200 });
  t.match(await ask('POST', '/invalidate?authority=old-style/1'), { status: 404 });
  t.match(await ask('POST', '/invalidate?name=x'), { status: 400 });
  t.match(await ask('POST', '/invalidate'), { status: 400 });
  t.match(await ask('POST', `/invalidate?name=${name}&authority=a`), { status: 400 });
  t.match(await ask('GET', '/invalidate?authority=a'), { status: 405 });
  const shown = await ask('GET', '/instances');
  t.strictSame(JSON.parse(shown.body), { instance: 'i', nats: 'not configured', holds: [] });
});
