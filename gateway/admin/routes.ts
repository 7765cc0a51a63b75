/** The endpoints of the admin API, and the function that dispatches a request to them. */
import { authorities } from './authorities.js';
import { clients } from './clients.js';
import { diff, DIFF_PATH } from './diff.js';
import { configDump } from './config-dump.js';
import { order, ORDER_PATH } from './force.js';
import { live, ready } from './health.js';
import { history, HISTORY_PATH } from './history.js';
import { instances, invalidate } from './instances.js';
import { changeLevel, showLevel } from './logging.js';
import { follow, page, wantsPage } from './page/page.js';
import { failure, json, type AdminContext, type AdminRequest, type Reply } from './reply.js';
import { writePieces } from './pieces.js';
import { explain, resource } from './resources.js';
import { status } from './status.js';
import { watch } from './watch.js';

interface Route {
  readonly method: 'GET' | 'POST';
  /** For display: `<…>` and `[…]` stand for values. `matches` decides. */
  readonly path: string;
  readonly meaning: string;
  readonly matches: (path: string) => boolean;
  readonly handle: (context: AdminContext, request: AdminRequest) => Reply | Promise<Reply>;
}

const is = (expected: string) => (path: string) => path === expected;
const startsWith = (prefix: string) => (path: string) => path.startsWith(prefix);
const endsWithOrder = (verb: string) => (path: string) => ORDER_PATH.exec(path)?.[2] === verb;

/** All endpoints. docs/OPERATIONS.md has them as a table (reference.test.ts compares). */
export const ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/',
    meaning: 'For a browser, the page of the gateway; otherwise this list.',
    matches: is('/'),
    handle: (context, request) =>
      wantsPage(request) ? page(context, request) : json(200, { endpoints: LISTED }),
  },
  {
    method: 'GET',
    path: '/events',
    meaning: 'The changes of the page at `/`, as server-sent events.',
    matches: is('/events'),
    handle: follow,
  },
  {
    method: 'GET',
    path: '/live',
    meaning: 'Liveness: 200 while the process responds.',
    matches: is('/live'),
    handle: live,
  },
  {
    method: 'GET',
    path: '/ready',
    meaning: 'Readiness: 200, or 503 with the reasons.',
    matches: is('/ready'),
    handle: ready,
  },
  {
    method: 'GET',
    path: '/authorities',
    meaning: 'The failover state of each group: its source, since when, and the cause.',
    matches: is('/authorities'),
    handle: authorities,
  },
  {
    method: 'GET',
    path: '/authorities/<authority>/history',
    meaning:
      'The switches of the authority, among the last 500 of this process, newest first: time, reason, time since the loss, time until the next switch, and number of names.',
    matches: (path) => HISTORY_PATH.test(path),
    handle: history,
  },
  {
    method: 'GET',
    path: '/resources/<urn>',
    meaning: 'A resource as clients receive it, without secrets, or the members of a glob.',
    matches: startsWith('/resources/'),
    handle: resource,
  },
  {
    method: 'GET',
    path: '/resources/<name>?type=TYPE',
    meaning:
      'An old-style resource as the gateway serves it to each node group, while a client subscribes to it. Node groups with the same content share an entry.',
    matches: startsWith('/resources/'),
    handle: resource,
  },
  {
    method: 'GET',
    path: '/watch/<urn>',
    meaning:
      'Every change of a name, or of the members of a glob, as it happens: one JSON object a line, or server-sent events for `accept: text/event-stream`. At most 64 at a time.',
    matches: startsWith('/watch/'),
    handle: watch,
  },
  {
    method: 'GET',
    path: '/explain/<urn>[?as=IDENTITY&address=IP&node_id=ID]',
    meaning:
      'The sources of a name, the name that the gateway requests from each, and what each has answered; with `as`, whether that client may ask for it.',
    matches: startsWith('/explain/'),
    handle: explain,
  },
  {
    method: 'GET',
    path: '/explain/<name>?type=TYPE',
    meaning: 'The same for an old-style name, for each node group.',
    matches: startsWith('/explain/'),
    handle: explain,
  },
  {
    method: 'GET',
    path: '/clients[?limit=N&after=ID]',
    meaning:
      'The client streams, the clients that poll (`protocol: poll`), the service that each called, their subscriptions, and the last response of each type that they refused (`rejections`). At most 1,000 in one answer; `next` is the `after` of the following page.',
    matches: is('/clients'),
    handle: clients,
  },
  {
    method: 'GET',
    path: '/status[?limit=N&after=ID]',
    meaning:
      'For each client and type: `SYNCED`, `STALE` since when, `NACK` with the reason, or `NOT SENT`, and the source from which each authority is served. Pages as for `/clients`.',
    matches: is('/status'),
    handle: status,
  },
  {
    method: 'GET',
    path: '/config_dump',
    meaning:
      'All resources that the gateway serves, without secrets, in the format of the endpoint of Envoy with this name. At most 2 at a time.',
    matches: is('/config_dump'),
    handle: configDump,
  },
  {
    method: 'GET',
    path: '/instances',
    meaning: 'This instance, its connection to NATS, and a digest of the resources that it holds.',
    matches: is('/instances'),
    handle: instances,
  },
  {
    method: 'POST',
    path: '/invalidate?name=URN, or ?authority=AUTHORITY',
    meaning: 'Requests the names from their sources again, at this instance and at all peers.',
    matches: is('/invalidate'),
    handle: invalidate,
  },
  {
    method: 'GET',
    path: '/metrics',
    meaning: 'Metrics in the Prometheus text format.',
    matches: is('/metrics'),
    handle: ({ telemetry }) => ({
      status: 200,
      contentType: telemetry.metrics.registry.contentType,
      body: '',
      goOn: (out) => {
        writePieces(out, telemetry.metricsPieces(), telemetry);
      },
    }),
  },
  {
    method: 'GET',
    path: '/logging',
    meaning: 'The log level.',
    matches: is('/logging'),
    handle: showLevel,
  },
  {
    method: 'POST',
    path: '/logging?level=LEVEL',
    meaning: 'Changes the log level until the process ends.',
    matches: is('/logging'),
    handle: changeLevel,
  },
  {
    method: 'POST',
    path: '/authorities/<authority>/diff?to=[GROUP/]SOURCE[&from=[GROUP/]SOURCE&wait=10s]',
    meaning:
      'The changes that clients would receive if that source were forced. Nothing is forced: the gateway requests the names of its clients from that source for up to `wait` (20s at most). One at a time.',
    matches: (path) => DIFF_PATH.test(path),
    handle: diff,
  },
  {
    method: 'POST',
    path: '/authorities/<authority>/force?source=NAME&for=10m[&group=GROUP]',
    meaning: 'Forces one source for an authority, whatever its health, for a limited time.',
    matches: endsWithOrder('force'),
    handle: order,
  },
  {
    method: 'POST',
    path: '/authorities/<authority>/release[?group=GROUP]',
    meaning: 'Ends a forced source early.',
    matches: endsWithOrder('release'),
    handle: order,
  },
];

const LISTED = ROUTES.map(({ method, path, meaning }) => ({ method, path, meaning }));

/** Never throws because of the content of a request. */
export async function answer(context: AdminContext, request: AdminRequest): Promise<Reply> {
  const rebound = reboundHost(request, context.listenHost);
  if (rebound !== undefined) return failure(403, rebound);
  const method = request.method === 'HEAD' ? 'GET' : request.method;
  const there = ROUTES.filter((route) => route.matches(request.path));
  if (there.length === 0) {
    return failure(404, `no endpoint ${request.path}`, { hint: 'GET / lists all endpoints' });
  }
  const route = there.find((one) => one.method === method);
  if (!route) {
    const allowed = there.map((one) => one.method).join(', ');
    const refused = failure(405, `${request.method} is not allowed here, use ${allowed}`);
    return { ...refused, headers: { allow: allowed } };
  }
  if (method !== 'GET') {
    const foreign = foreignOrigin(request);
    if (foreign !== undefined) return failure(403, foreign);
  }
  return route.handle(context, request);
}

/**
 * Refuses requests of web pages: a page that an operator visits must not move authorities. Browsers
 * send the origin of a request. A page that rebinds its own DNS name to loopback has a matching
 * origin; its `Host` gives it away, since that is neither an address nor `localhost`.
 *
 * @returns the reason, or undefined for a request that is allowed.
 */
function foreignOrigin({ headers }: AdminRequest): string | undefined {
  const { origin, host = '' } = headers;
  if (headers['sec-fetch-site'] === 'cross-site') return 'cross-origin requests are refused';
  if (origin === undefined) return undefined;
  if (origin.replace(/^https?:\/\//, '') !== host) return 'cross-origin requests are refused';
  return isAddress(host) ? undefined : 'browsers must use an address of the gateway, or localhost';
}

const isAddress = (host: string): boolean =>
  /^(localhost|\[[0-9a-f:.]+\]|\d+(\.\d+){3})(:\d+)?$/i.test(host);

/**
 * A listener on loopback is requested by address or as `localhost`. Any other name in `Host` is the
 * name of a web page that rebound its DNS name to loopback to read the admin API.
 *
 * @returns the reason to refuse the request, or undefined.
 */
function reboundHost({ headers }: AdminRequest, listenHost: string): string | undefined {
  const { host } = headers;
  if (host === undefined || isAddress(host) || !/^(localhost|127\.|::1|\[::1\])/.test(listenHost)) {
    return undefined;
  }
  return `"${host}" is not the address of this gateway: use ${listenHost} or localhost`;
}
