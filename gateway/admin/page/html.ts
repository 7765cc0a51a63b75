/** HTML in which every value is escaped, since names, nodes and errors come from clients and sources. */
import { shownText } from '../../telemetry/line-fields.js';

/** Text that is HTML already. Only `html` makes it. */
export class Html {
  constructor(readonly text: string) {}
}

export type HtmlValue = Html | string | number | undefined | readonly Html[];

/**
 * A template of HTML. Strings are shown as text, without control characters and cut at 1,000
 * characters; safe between tags and in quoted attributes. `undefined` shows nothing.
 */
export function html(parts: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  let text = '';
  parts.forEach((part, index) => {
    text += part + htmlOf(values[index]);
  });
  return new Html(text);
}

function htmlOf(value: HtmlValue): string {
  if (value === undefined) return '';
  if (value instanceof Html) return value.text;
  if (typeof value === 'object') return value.map(({ text }) => text).join('');
  return escaped(shownText(String(value)));
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

const escaped = (text: string): string => text.replace(/[&<>"']/g, (one) => ENTITIES[one] ?? one);

/** A time of `wallTime`, to the second. */
export function timeOf(iso: string | undefined): Html | undefined {
  if (iso === undefined) return undefined;
  const toSecond = `${iso.slice(0, 19)}Z`;
  return html`<time datetime="${toSecond}">${toSecond.replace('T', ' ')}</time>`;
}

/** A table in a box that scrolls by itself, by keyboard too. @param caption names it for screen readers */
export function table(
  caption: string,
  columns: readonly string[],
  rows: readonly (readonly HtmlValue[])[],
): Html {
  const head = columns.map((column) => html`<th scope="col">${column}</th>`);
  const body = rows.map(
    (row) =>
      html`<tr>
        ${row.map((cell) => html`<td>${cell}</td>`)}
      </tr>`,
  );
  return html`<div class="scroll" tabindex="0" role="group" aria-label="${caption}">
    <table>
      <caption>
        ${caption}
      </caption>
      <thead>
        <tr>
          ${head}
        </tr>
      </thead>
      <tbody>
        ${body}
      </tbody>
    </table>
  </div>`;
}

export const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;
