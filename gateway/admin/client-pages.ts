/** Listings of clients, in pages. */
import type { ClientStream } from '../clients/client-stream.js';
import { inSlices } from './pieces.js';
import { failure, jsonText, type AdminContext, type AdminRequest, type Reply } from './reply.js';

/** Clients in one page; also the default. A count. */
const MAX_PAGE = 1_000;

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
 * @param rowOf the JSON of one client, in pieces
 */
export async function clientPage(
  { gateway }: AdminContext,
  { query }: Pick<AdminRequest, 'query'>,
  rowOf: (stream: ClientStream) => Iterable<string>,
): Promise<Reply> {
  const page = pageFrom(query);
  if (typeof page === 'string') {
    const hint = `write limit=1 to limit=${MAX_PAGE}, and after=ID with the value of next`;
    return failure(400, page, { hint });
  }
  const all = gateway.server.clients();
  const left = all.filter(({ id }) => id > page.after).sort((one, other) => one.id - other.id);
  const rows = await inSlices(separated(left.slice(0, page.limit), rowOf));
  const last = left[page.limit - 1];
  const next = last && left.length > page.limit ? `,"next":${last.id}` : '';
  return jsonText(200, `{"count":${all.length},"clients":[${rows}]${next}}`);
}

function* separated(
  streams: readonly ClientStream[],
  rowOf: (stream: ClientStream) => Iterable<string>,
): IterableIterator<string> {
  for (const [index, stream] of streams.entries()) {
    if (index > 0) yield ',';
    yield* rowOf(stream);
  }
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
