/** The endpoints of the admin side, and the one function that answers a request. */
import { authorities } from './authorities.js';
import { clients } from './clients.js';
import { order, ORDER_PATH } from './force.js';
import { live, ready } from './health.js';
import { instances, invalidate } from './instances.js';
import { changeLevel, showLevel } from './logging.js';
import { failure, json, type AdminContext, type AdminRequest, type Reply } from './reply.js';
import { explain, resource } from './resources.js';

interface Route {
  readonly method: 'GET' | 'POST';
  /** As people write it. */
  readonly path: string;
  readonly meaning: string;
  readonly matches: (path: string) => boolean;
  readonly handle: (context: AdminContext, request: AdminRequest) => Reply | Promise<Reply>;
}

const is = (expected: string) => (path: string) => path === expected;
const startsWith = (prefix: string) => (path: string) => path.startsWith(prefix);
const endsWithOrder = (verb: string) => (path: string) => ORDER_PATH.exec(path)?.[2] === verb;

/** All of them; also the table in docs/OPERATIONS.md (a test compares). */
export const ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/',
    meaning: 'This list.',
    matches: is('/'),
    handle: () => json(200, { endpoints: LISTED }),
  },
  {
    method: 'GET',
    path: '/live',
    meaning: '200 as long as the process answers.',
    matches: is('/live'),
    handle: live,
  },
  {
    method: 'GET',
    path: '/ready',
    meaning: '200, or 503 with the reasons why not.',
    matches: is('/ready'),
    handle: ready,
  },
  {
    method: 'GET',
    path: '/authorities',
    meaning: 'The state of each group: what is served from where, since when, why.',
    matches: is('/authorities'),
    handle: authorities,
  },
  {
    method: 'GET',
    path: '/resources/<urn>',
    meaning: 'A resource as it is served, without secrets, or the members of a glob.',
    matches: startsWith('/resources/'),
    handle: resource,
  },
  {
    method: 'GET',
    path: '/explain/<urn>',
    meaning: 'Which sources a name leads to, and what each is asked for.',
    matches: startsWith('/explain/'),
    handle: explain,
  },
  {
    method: 'GET',
    path: '/explain/<name>?type=TYPE',
    meaning: 'The same of an old-style name, for each node group.',
    matches: startsWith('/explain/'),
    handle: explain,
  },
  {
    method: 'GET',
    path: '/clients',
    meaning: 'The client streams and what they ask for.',
    matches: is('/clients'),
    handle: clients,
  },
  {
    method: 'GET',
    path: '/instances',
    meaning: 'This instance among the others, and a digest of what it holds.',
    matches: is('/instances'),
    handle: instances,
  },
  {
    method: 'POST',
    path: '/invalidate?name=URN, or ?authority=AUTHORITY',
    meaning: 'Has the sources asked again, here and at all instances.',
    matches: is('/invalidate'),
    handle: invalidate,
  },
  {
    method: 'GET',
    path: '/metrics',
    meaning: 'Metrics in the text format of Prometheus.',
    matches: is('/metrics'),
    handle: async ({ telemetry }) => ({
      status: 200,
      contentType: telemetry.metrics.registry.contentType,
      body: await telemetry.metricsText(),
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
    meaning: 'Changes the log level, until the process ends.',
    matches: is('/logging'),
    handle: changeLevel,
  },
  {
    method: 'POST',
    path: '/authorities/<authority>/force?source=NAME&for=10m[&group=GROUP]',
    meaning: 'Serves an authority from one source, whatever its health, for a time.',
    matches: endsWithOrder('force'),
    handle: order,
  },
  {
    method: 'POST',
    path: '/authorities/<authority>/release[?group=GROUP]',
    meaning: 'Ends that before its time.',
    matches: endsWithOrder('release'),
    handle: order,
  },
];

const LISTED = ROUTES.map(({ method, path, meaning }) => ({ method, path, meaning }));

/** Never throws for what the request says. */
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
 * A web page that an operator happens to visit must not move authorities: browsers tell where a
 * request comes from. A name that a page rebinds to loopback is told by the host, which is no
 * address and not `localhost`.
 */
function foreignOrigin({ headers }: AdminRequest): string | undefined {
  const { origin, host = '' } = headers;
  if (headers['sec-fetch-site'] === 'cross-site') return 'cross-origin requests are refused';
  if (origin === undefined) return undefined;
  if (origin !== `http://${host}`) return 'cross-origin requests are refused';
  return isAddress(host) ? undefined : 'requests of browsers are taken by address only';
}

const isAddress = (host: string): boolean =>
  /^(localhost|\[[0-9a-f:.]+\]|\d+(\.\d+){3})(:\d+)?$/i.test(host);

/**
 * What listens on loopback is asked by address. Another name in `Host` is that of a web page which
 * rebound its own name to loopback, to read what is shown here.
 */
function reboundHost({ headers }: AdminRequest, listenHost: string): string | undefined {
  const { host } = headers;
  if (host === undefined || isAddress(host) || !/^(localhost|127\.|::1|\[::1\])/.test(listenHost)) {
    return undefined;
  }
  return `"${host}" is not the address of this gateway: use ${listenHost} or localhost`;
}
