/**
 * Goal: documents and charts say what docs/performance-figures.json says.
 * Method: the real documents are compared with what the publisher would write; made-up figures test
 * the publisher itself.
 */
import { readFile } from 'node:fs/promises';
import t from 'tap';
import { svgOf } from '../../../benchmarks/chart.js';
import { figuresOf, type Results } from '../../../benchmarks/figures.js';
import { chartsOf, documentsOf, readFigures } from '../../../benchmarks/publish-figures.js';
import { quotesIn, withFigures } from '../../../benchmarks/quotes.js';
import { markdownTable } from '../../../benchmarks/report.js';

const results: Results = {
  date: '2026-01-02T03:04:05.678Z',
  preface: 'a machine',
  scale: 1,
  workloads: [
    {
      id: 'W9',
      title: 'work',
      servers: {
        floor: [{ 'p50 ms': 10 }, { 'p50 ms': 20 }, { 'p50 ms': 40 }],
        'floor-go': [{ 'p50 ms': 5 }, null, { 'p50 ms': 10 }],
        tributary: [{ 'p50 ms': 15 }, { 'p50 ms': 40 }, { 'p50 ms': 1234 }],
      },
    },
  ],
};
const figures = figuresOf([results]);

t.test('every figure that a document marks is the one of the file of figures', async (t) => {
  const published = await readFigures();
  const documents = [...(await documentsOf())];
  const quotes = documents.flatMap(([path, text]) =>
    quotesIn(text, published).map((quote) => ({ path, ...quote })),
  );
  t.ok(quotes.length > 10, 'the documents quote figures');
  const remedy = 'run: node build/benchmarks/publish.js';
  for (const { path, mark, found, expected } of quotes) {
    t.equal(found, expected, `${mark} in ${path}; ${remedy}`);
  }
  const unread = documents.flatMap(([path, text]) => {
    const marks = text.match(/<!-- *\/?(?:figure|results|measured)\b/g)?.length ?? 0;
    return marks === 2 * quotes.filter((quote) => quote.path === path).length ? [] : [path];
  });
  t.same(unread, [], 'every mark has an end and is understood');
});

t.test('the charts show the file of figures', async (t) => {
  const charts = chartsOf(await readFigures());
  t.ok(charts.size > 0);
  for (const [path, svg] of charts) {
    t.equal(await readFile(path, 'utf8'), svg, `${path}; run: node build/benchmarks/publish.js`);
    t.match(svg, /<title id="title">[^<]+<\/title>\s*<desc id="desc">[^<]+<\/desc>/);
    t.same(cutOff(svg), [], 'no text leaves the picture');
  }
});

t.test('a chart escapes its texts and keeps negative and large figures in the picture', (t) => {
  const bars = [
    { label: 'a < b & c', value: -3, text: '-3' },
    { label: 'large', value: 1e9, text: '1,000,000,000' },
  ];
  const svg = svgOf({ title: 'T', panels: [{ caption: 'C', bars }], highlighted: 'large' });
  t.match(svg, 'a &lt; b &amp; c');
  t.notMatch(svg, 'width="-');
  t.same(cutOff(svg), []);
  t.end();
});

t.test('a document with another figure differs, and is corrected', (t) => {
  const document = 'a <!-- figure W9; tributary; p50 ms -->41<!-- /figure --> b';
  t.match(quotesIn(document, figures), [{ found: '41', expected: '40' }]);
  t.equal(
    withFigures(document, figures),
    'a <!-- figure W9; tributary; p50 ms -->40<!-- /figure --> b',
  );
  t.throws(
    () => quotesIn('<!-- figure W9; tributary; p51 ms -->1<!-- /figure -->', figures),
    /W9; tributary; p51 ms/,
  );
  t.end();
});

t.test('ratios are those of consecutive runs, without the failed ones', (t) => {
  const cell = figures.workloads[0]?.metrics['p50 ms']?.tributary;
  t.same(cell?.value, [40, 15, 1234]);
  t.same(cell?.ratios, { floor: [2, 1.5, 30.85], 'floor-go': [63.2, 3, 123.4] });
  t.end();
});

t.test('the table has one column for each server with figures, and its ratios', (t) => {
  t.equal(
    markdownTable(figures),
    [
      '| workload | metric | grpc-js floor | Go floor | Tributary | ÷ grpc-js floor | ÷ Go floor |',
      '| --- | --- | --- | --- | --- | --- | --- |',
      '| W9 work | p50 ms | 20 (10–40) | 7.5 (5–10) | 40 (15–1,234) | 2 × (1.5–30.9) | 63.2 × (3–123) |',
    ].join('\n'),
  );
  t.end();
});

t.test('a workload of later results replaces that of earlier ones', (t) => {
  const later: Results = {
    ...results,
    date: '2026-01-03T00:00:00.000Z',
    workloads: [{ id: 'W9', title: 'work', servers: { tributary: [{ 'p50 ms': 7 }] } }],
  };
  const both = figuresOf([results, later]);
  t.same(both.workloads[0]?.metrics['p50 ms'], { tributary: { value: [7, 7, 7] } });
  t.equal(both.measured, '2026-01-02; a machine / 2026-01-03; a machine');
  t.end();
});

/** Texts that would leave the picture, if a character were 0.62 of the font's size wide. */
function cutOff(svg: string): string[] {
  const width = Number(/width="(\d+)"/.exec(svg)?.[1]);
  const texts = svg.matchAll(
    /<text(?: class="(\w+)")? x="(\d+)" y="\d+"(?: text-anchor="(end)")?>(.*?)<\/text>/g,
  );
  return [...texts].flatMap(([, kind, x, anchor, text = '']) => {
    const size = (kind === 'title' ? 16 : 13) * 0.62 * text.replace(/&\w+;/g, '&').length;
    const left = anchor === 'end' ? Number(x) - size : Number(x);
    return left >= 0 && left + size <= width ? [] : [text];
  });
}
