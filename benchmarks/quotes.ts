/**
 * Figures in documents. A document marks what it repeats of docs/performance-figures.json with
 * comments, which markdown does not show:
 *
 *   <!-- figure W2; tributary; p50 ms -->22.5<!-- /figure -->           the median
 *   <!-- figure W2; tributary ÷ floor; p50 ms -->1.73 ×<!-- /figure --> the ratio in the same run
 *   <!-- results -->…<!-- /results -->                                  the whole table
 *   <!-- measured -->…<!-- /measured -->                                when, where, how many runs
 */
import { figureText, type PublishedFigures } from './figures.js';
import type { ServerName } from './harness/server.js';
import { markdownTable } from './report.js';

const MARKED =
  /<!-- (figure [^>]*?|results|measured) -->(.*?)<!-- \/(figure|results|measured) -->/gs;

export interface Quote {
  readonly mark: string;
  readonly found: string;
  readonly expected: string;
}

/** The marked places of a document, with what they say and what they should say. */
export function quotesIn(document: string, figures: PublishedFigures): readonly Quote[] {
  return [...document.matchAll(MARKED)].map(([, mark = '', found = '']) => ({
    mark,
    found,
    expected: expectedAt(mark, figures),
  }));
}

/** The document with every marked place corrected. */
export function withFigures(document: string, figures: PublishedFigures): string {
  return document.replace(MARKED, (_, mark: string, _found: string, end: string) => {
    return `<!-- ${mark} -->${expectedAt(mark, figures)}<!-- /${end} -->`;
  });
}

function expectedAt(mark: string, figures: PublishedFigures): string {
  if (mark === 'results') return `\n\n${markdownTable(figures)}\n\n`;
  if (mark === 'measured') return figures.measured;
  const [id, servers, metric] = mark
    .replace(/^figure /, '')
    .split(';')
    .map((part) => part.trim());
  const [server, base] = (servers ?? '').split(' ÷ ') as [ServerName, ServerName?];
  const workload = figures.workloads.find((one) => one.id === id);
  const cell = workload?.metrics[metric ?? '']?.[server];
  const value = base === undefined ? cell?.value : cell?.ratios?.[base];
  if (value === undefined) throw new Error(`there is no figure for “${mark}”`);
  return `${figureText(value[0])}${base === undefined ? '' : ' ×'}`;
}
