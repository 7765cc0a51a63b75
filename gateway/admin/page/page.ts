/** The page of the gateway at `/`: complete without JavaScript; a script keeps it current. */
import { VERSION } from '../../version.js';
import type { AdminContext, AdminRequest, Reply } from '../reply.js';
import { failure } from '../reply.js';
import { PAGE_HEADERS, SCRIPT_ELEMENT, STYLE_ELEMENT } from './assets.js';
import { clientsChoiceOf, clientsSection } from './clients-section.js';
import { html, type Html } from './html.js';
import { resolutionSection } from './resolution-section.js';
import { stateSections, type Section } from './state-sections.js';

/** A browser that opens a page names `text/html` in `Accept`; curl and the command line do not. */
export const wantsPage = ({ headers }: Pick<AdminRequest, 'headers'>): boolean =>
  headers.accept?.includes('text/html') === true;

/** The page with what the query chose: see `clientsChoiceOf` and `resolutionSection`. */
export function page(context: AdminContext, { query }: AdminRequest): Reply {
  const sections = [
    ...stateSections(context),
    clientsSection(context, clientsChoiceOf(query)),
    resolutionSection(context, query),
  ];
  const { instance } = context.gateway.peers;
  const body = html`<header>
      <h1>Tributary</h1>
      <p>${VERSION}, instance <code>${instance}</code></p>
      <p id="live" role="status">As of the last reload</p>
      <p>
        <a href="/metrics">metrics</a> <a href="/authorities">authorities</a>
        <a href="/clients">clients</a> as data
      </p>
    </header>
    <main>${sections.map(sectionHtml)}</main>
    ${SCRIPT_ELEMENT}`;
  return htmlReply(200, body);
}

const sectionHtml = ({ id, title, content }: Section): Html =>
  html`<section id="${id}" aria-labelledby="${id}-title">
    <h2 id="${id}-title">${title}</h2>
    <div class="content">${content}</div>
  </section> `;

/** `/events`: the sections of the page that shows this query, each time that one changes. */
export function follow({ pageEvents }: AdminContext, { query }: AdminRequest): Reply {
  const goOn = pageEvents?.admit(query);
  if (!goOn) return failure(503, 'too many pages follow this gateway: close one');
  return { status: 200, contentType: 'text/event-stream', body: '', goOn };
}

/** @param body of a complete document, with at most `SCRIPT_ELEMENT` as its script */
export function htmlReply(status: number, body: Html): Reply {
  const document = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>Tributary</title>
        <link rel="icon" href="data:," />
        ${STYLE_ELEMENT}
      </head>
      <body>
        ${body}
      </body>
    </html> `;
  return {
    status,
    contentType: 'text/html; charset=utf-8',
    body: document.text,
    headers: PAGE_HEADERS,
  };
}
