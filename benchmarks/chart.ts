/**
 * Bar charts as SVG, without a library. Colours follow the reader's light or dark mode; the chart
 * has its own background, so it is readable on a page that does not.
 */

export interface Panel {
  readonly caption: string;
  readonly bars: readonly {
    readonly label: string;
    readonly value: number;
    readonly text: string;
  }[];
}

export interface Chart {
  readonly title: string;
  readonly panels: readonly Panel[];
  /** The label of the bars that stand out. */
  readonly highlighted: string;
}

const WIDTH = 760;
const MARGIN = 24;
const LABEL_WIDTH = 140;
/** Room for the figure behind the longest bar. */
const FIGURE_WIDTH = 90;
const BAR_HEIGHT = 18;
const ROW_HEIGHT = 26;
const TITLE_HEIGHT = 56;
const CAPTION_HEIGHT = 30;
const PANEL_GAP = 14;

const STYLE = `
    text { font: 13px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; fill: #1f2328; }
    .title { font-size: 16px; font-weight: 600; }
    .caption { font-weight: 600; }
    .page { fill: #ffffff; stroke: #d1d9e0; }
    .bar { fill: #9aa4af; }
    .own { fill: #0969da; }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; }
      .page { fill: #0d1117; stroke: #3d444d; }
      .bar { fill: #6e7681; }
      .own { fill: #4493f8; }
    }
  `;

export function svgOf(chart: Chart): string {
  const panels: string[] = [];
  let y = TITLE_HEIGHT;
  for (const panel of chart.panels) {
    panels.push(...panelAt(y, panel, chart.highlighted));
    y += panelHeight(panel) + PANEL_GAP;
  }
  const height = y - PANEL_GAP + MARGIN;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-labelledby="title desc">`,
    `  <title id="title">${escaped(chart.title)}</title>`,
    `  <desc id="desc">${escaped(inWords(chart))}</desc>`,
    `  <style>${STYLE}</style>`,
    `  <rect class="page" x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="6"/>`,
    `  <text class="title" x="${MARGIN}" y="34">${escaped(chart.title)}</text>`,
    ...panels.map((line) => `  ${line}`),
    '</svg>',
    '',
  ].join('\n');
}

const panelHeight = ({ bars }: Panel): number => CAPTION_HEIGHT + bars.length * ROW_HEIGHT;

function panelAt(top: number, { caption, bars }: Panel, highlighted: string): readonly string[] {
  const largest = Math.max(...bars.map(({ value }) => value), Number.MIN_VALUE);
  const left = MARGIN + LABEL_WIDTH;
  const longest = WIDTH - MARGIN - FIGURE_WIDTH - left;
  const rows = bars.flatMap(({ label, value, text }, row) => {
    const y = top + CAPTION_HEIGHT + row * ROW_HEIGHT;
    const length = Math.max(1, Math.round((Math.max(0, value) / largest) * longest));
    const middle = y + BAR_HEIGHT - 4;
    const kind = label === highlighted ? 'own' : 'bar';
    return [
      `<text x="${left - 8}" y="${middle}" text-anchor="end">${escaped(label)}</text>`,
      `<rect class="${kind}" x="${left}" y="${y}" width="${length}" height="${BAR_HEIGHT}" rx="2"/>`,
      `<text x="${left + length + 6}" y="${middle}">${escaped(text)}</text>`,
    ];
  });
  return [
    `<text class="caption" x="${MARGIN}" y="${top + 16}">${escaped(caption)}</text>`,
    ...rows,
  ];
}

function inWords({ panels }: Chart): string {
  return panels
    .map(({ caption, bars }) => {
      return `${caption}: ${bars.map(({ label, text }) => `${label} ${text}`).join(', ')}.`;
    })
    .join(' ');
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
