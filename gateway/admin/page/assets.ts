/** The style and the script of the page. They are inside it, so that the page requests nothing else. */
import { createHash } from 'node:crypto';
import { Html } from './html.js';

const STYLE = `
:root { color-scheme: light dark; --text: #1b1f24; --back: #fff; --soft: #57606a; --line: #d0d7de;
  --good: #116329; --warn: #7d4e00; --bad: #a40e26; --link: #0550ae; --box: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --back: #0d1117; --soft: #9da7b3; --line: #3d444d;
    --good: #56d364; --warn: #e3b341; --bad: #ff8f87; --link: #79b8ff; --box: #161b22; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 90rem; padding: 1rem; color: var(--text); background: var(--back);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .5rem; }
header { display: flex; flex-wrap: wrap; gap: .3rem 1rem; align-items: baseline; }
header p { margin: 0; color: var(--soft); }
a { color: var(--link); }
code, svg text { font-family: ui-monospace, monospace; font-size: .9em; unicode-bidi: isolate; }
.scroll { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; width: 100%; }
caption { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--line);
  overflow-wrap: break-word; max-width: 40rem; min-width: 4.5rem; }
th { background: var(--box); white-space: nowrap; }
td > b, time { white-space: nowrap; }
.candidate { white-space: nowrap; margin-right: .8rem; }
.good { color: var(--good); } .warn { color: var(--warn); } .bad { color: var(--bad); }
.calm { color: var(--soft); font-weight: normal; }
.timeline { border-left: 3px solid var(--line); padding-left: 1rem; list-style: none; }
.timeline li { margin-bottom: .35rem; }
form { display: flex; flex-wrap: wrap; gap: .6rem; align-items: end; margin-bottom: .8rem; }
label { display: grid; } input, button { font: inherit; max-width: 90vw; padding: .2rem .4rem; }
.path rect { fill: var(--box); stroke: var(--soft); }
.path .off rect { stroke-dasharray: 4 4; }
.path text { fill: var(--text); font-size: 13px; } .path .label { fill: var(--soft); font-size: 12px; }
.path path { stroke: var(--soft); fill: none; }
`;

/** Replaces each section that changed. Focus stays: the link or field of the same address gets it again. */
const SCRIPT = `
const live = document.getElementById('live');
const events = new EventSource('/events' + location.search);
const seen = new Set();
events.onopen = () => { seen.clear(); live.textContent = 'Live'; };
events.onerror = () => {
  live.textContent = events.readyState === EventSource.CLOSED
    ? 'Not live: reload the page for news' : 'Not live: connecting again';
};
events.addEventListener('section', ({ data }) => {
  const { id, html } = JSON.parse(data);
  const content = document.querySelector('#' + id + ' > .content');
  if (!content) return;
  const { activeElement } = document;
  const focused = content.contains(activeElement)
    ? [activeElement.getAttribute('href'), activeElement.getAttribute('aria-label')] : undefined;
  content.innerHTML = html;
  if (focused) [...content.querySelectorAll('a, [tabindex]')].find((one) =>
    one.getAttribute('href') === focused[0] && one.getAttribute('aria-label') === focused[1])?.focus();
  // The first is what the page shows already.
  if (id === 'switches' && seen.has(id)) live.textContent = 'Live: a group has switched';
  seen.add(id);
});
`;

// Their hashes are of every character between the tags.
export const STYLE_ELEMENT = new Html(`<style>${STYLE}</style>`);
export const SCRIPT_ELEMENT = new Html(`<script>${SCRIPT}</script>`);

const hashOf = (text: string): string =>
  `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/**
 * Only this style and this script run, and the page reaches only its own gateway: text of a client that
 * escaped the escaping could neither run nor report anything (W3C CSP 3).
 */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': [
    "default-src 'none'",
    `style-src ${hashOf(STYLE)}`,
    `script-src ${hashOf(SCRIPT)}`,
    "connect-src 'self'",
    'img-src data:',
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  // `no-referrer` would make the origin of the sign-in form "null".
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  vary: 'accept',
};
