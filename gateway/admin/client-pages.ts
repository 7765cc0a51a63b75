/**
 * Listings of clients, in pages. A page is built in slices of time: 10,000 clients must not delay the
 * responses to clients.
 */
import type { ClientStream } from '../clients/client-stream.js';
import { failure, jsonText, type AdminContext, type AdminRequest, type Reply } from './reply.js';

/** Clients in one page; also the default. A count. */
const MAX_PAGE = 1_000;
/** A page yields to the event loop after this time. */
const SLICE_MS = 10;

interface Page {
  readonly limit: number;
  /** The id of the last client of the page before; 0: the first page. */
  readonly after: number;
}

/**
 * Answers `{count, clients, next}`: the number of all clients, the rows of this page in the order in
 * which the clients came, and the value of `after` for the next page (absent: this is the last one).
 * 400 for a wrong `limit` or `after`.
 *
 * @param rowOf the row of one client, as JSON can hold it
 */
export async function clientPage(
  { gateway }: AdminContext,
  { query }: Pick<AdminRequest, 'query'>,
  rowOf: (stream: ClientStream) => unknown,
): Promise<Reply> {
  const page = pageFrom(query);
  if (typeof page === 'string') {
    const hint = `write limit=1 to limit=${MAX_PAGE}, and after=ID with the value of next`;
    return failure(400, page, { hint });
  }
  const all = gateway.server.clients();
  const left = all.filter(({ id }) => id > page.after).sort((one, other) => one.id - other.id);
  const rows: string[] = [];
  let sliceFromMs = performance.now();
  for (const stream of left.slice(0, page.limit)) {
    rows.push(JSON.stringify(rowOf(stream)));
    if (performance.now() - sliceFromMs < SLICE_MS) continue;
    await new Promise(setImmediate);
    sliceFromMs = performance.now();
  }
  const last = left[page.limit - 1];
  const next = last && left.length > page.limit ? `,"next":${last.id}` : '';
  return jsonText(200, `{"count":${all.length},"clients":[${rows.join(',')}]${next}}`);
}

/** @returns what is wrong, as a string */
function pageFrom(query: URLSearchParams): Page | string {
  const limit = countIn(query, 'limit') ?? MAX_PAGE;
  const after = countIn(query, 'after') ?? 0;
  if (!(limit >= 1 && limit <= MAX_PAGE)) {
    return `limit: "${query.get('limit') ?? ''}" is not a number from 1 to ${MAX_PAGE}`;
  }
  if (Number.isNaN(after)) return `after: "${query.get('after') ?? ''}" is not the id of a client`;
  return { limit, after };
}

/** @returns NaN for a value that is not a count; undefined: absent */
function countIn(query: URLSearchParams, key: string): number | undefined {
  const text = query.get(key);
  if (text === null) return undefined;
  return /^\d{1,15}$/.test(text) ? Number(text) : NaN;
}
