/** The section of clients: one page of them, and what each rejects. */
import { shortTypeOf } from '../../../protos/type-urls.js';
import { wallTime } from '../../clock.js';
import type { ClientStream } from '../../clients/client-stream.js';
import { identityText } from '../../core/rights/requester.js';
import type { AdminContext } from '../reply.js';
import { html, table, timeOf, type Html } from './html.js';
import type { Section } from './state-sections.js';

const ROWS_PER_PAGE = 50;

/** What the reader chose, by the query of the page. Any text is a valid choice. */
export interface ClientsChoice {
  /** From 1. */
  readonly page: number;
  /** Only clients that reject a resource now. */
  readonly onlyRejecting: boolean;
  /** The id of the node contains it; empty: every client. */
  readonly node: string;
}

export function clientsChoiceOf(query: URLSearchParams): ClientsChoice {
  const page = Number(query.get('page') ?? 1);
  return {
    page: Number.isSafeInteger(page) && page > 0 ? page : 1,
    onlyRejecting: query.get('only') === 'rejecting',
    node: query.get('node') ?? '',
  };
}

/** Rejections that no later ACK of the same type and authority has ended. */
const rejectionsOf = ({ rejections }: ClientStream) =>
  rejections.filter(({ acceptedAtMs }) => acceptedAtMs === undefined);

/** Cost: looks at each client once, and shows at most `ROWS_PER_PAGE`. */
export function clientsSection({ gateway }: AdminContext, choice: ClientsChoice): Section {
  const all = gateway.server.clients();
  const rejecting = all.filter((client) => rejectionsOf(client).length > 0);
  const chosen = (choice.onlyRejecting ? rejecting : all).filter(
    ({ node }) => choice.node === '' || (node?.id ?? '').includes(choice.node),
  );
  const pages = Math.max(1, Math.ceil(chosen.length / ROWS_PER_PAGE));
  const page = Math.min(choice.page, pages);
  const rows = chosen.slice((page - 1) * ROWS_PER_PAGE, page * ROWS_PER_PAGE);
  const columns = ['Node', 'Cluster', 'Peer', 'Identity', 'Protocol', 'Since', 'Names', 'Rejects'];
  const content = html`<p>
      ${all.length} clients,
      <a href="${linkTo({ ...choice, page: 1, onlyRejecting: true })}"
        >${rejecting.length} reject a resource</a
      >.
      ${
        choice.onlyRejecting
          ? html`<a href="${linkTo({ ...choice, page: 1, onlyRejecting: false })}">Show all.</a>`
          : undefined
      }
    </p>
    ${table('Clients', columns, rows.map(cellsOf))} ${pagesNav(choice, page, pages)}`;
  return { id: 'clients', title: 'Clients', content };
}

function cellsOf(client: ClientStream) {
  const rejections = rejectionsOf(client).map(
    ({ typeUrl, authority, atMs, detail }) =>
      html`<div>
        <b class="bad">${shortTypeOf(typeUrl)}</b>
        <code>${authority}</code> ${timeOf(wallTime(atMs))} ${detail.message}
      </div>`,
  );
  return [
    html`<code>${client.node?.id}</code>`,
    client.node?.cluster,
    client.peer,
    identityText(client.requester.identity),
    client.flavour,
    timeOf(wallTime(client.openedAtMs)),
    client.session.nameCount,
    rejections,
  ];
}

function pagesNav(choice: ClientsChoice, page: number, pages: number): Html {
  const to = (target: number, text: string): Html | undefined =>
    target < 1 || target > pages
      ? undefined
      : html`<a href="${linkTo({ ...choice, page: target })}">${text}</a> `;
  return html`<nav aria-label="Pages of clients">
    ${to(page - 1, 'Previous')}page ${page} of ${pages} ${to(page + 1, 'Next')}
  </nav>`;
}

function linkTo({ page, onlyRejecting, node }: ClientsChoice): string {
  const query = new URLSearchParams();
  if (page > 1) query.set('page', String(page));
  if (onlyRejecting) query.set('only', 'rejecting');
  if (node !== '') query.set('node', node);
  return `/?${query.toString()}#clients`;
}
