/**
 * Goal: every mistake in the section of old-style names is reported at its place, with a
 * correction.
 */
import t from 'tap';
import { parseAuthorityMap } from '../../../config/authority-map.js';
import { formatProblem } from '../../../config/problems.js';

const FILE = '/etc/map.yaml';

function resultOf(text: string): ReturnType<typeof parseAuthorityMap> {
  return parseAuthorityMap(text, { file: FILE });
}

function problemsOf(text: string): readonly string[] {
  const result = resultOf(text);
  const problems = result.ok ? [] : result.problems;
  return problems.map((problem) => formatProblem(problem).replace(`${FILE}:`, ''));
}

function warningsOf(text: string): readonly string[] {
  const result = resultOf(text);
  const warnings = result.ok ? result.warnings : [];
  return warnings.map((problem) => formatProblem(problem).replace(`${FILE}:`, ''));
}

/** A file around the section of old-style names, which starts at line 3. */
function withOldStyle(section: string): string {
  return `sources: { s: { path: . }, r: { path: . } }\nold_style_names:\n${section}\n`;
}

const BAD_SECTIONS: readonly (readonly [string, readonly string[]])[] = [
  [withOldStyle('  differ_by: [id]'), ['2:1: old_style_names: has no served_by']],
  [withOldStyle('  served_by: []'), ['3:14: old_style_names.served_by: must not be empty']],
  [
    withOldStyle('  served_by: [{ types: [a.B] }]'),
    ['3:15: old_style_names.served_by[0]: has no sources'],
  ],
  [
    withOldStyle('  differ_by: [clustr, id, id, metadata., 1]\n  served_by: [{ sources: [s] }]'),
    [
      '3:15: old_style_names.differ_by[0]: "clustr" is not a Node field that differ_by supports (did you mean "cluster"?)',
      '3:27: old_style_names.differ_by[2]: "id" is listed twice',
      '3:31: old_style_names.differ_by[3]: "metadata." is not a Node field that differ_by supports (write id, cluster, locality or metadata.<key>)',
      '3:42: old_style_names.differ_by[4]: must be text, not 1',
    ],
  ],
  [
    withOldStyle('  served_by: [{ sources: [q, s, s], types: [a.B, type.googleapis.com/a.B, 1] }]'),
    [
      '3:27: old_style_names.served_by[0].sources[0]: unknown source "q" (known here: "s", "r")',
      '3:33: old_style_names.served_by[0].sources[2]: "s" is listed twice',
      '3:50: old_style_names.served_by[0].types[1]: "type.googleapis.com/a.B" is listed twice',
      '3:75: old_style_names.served_by[0].types[2]: must be text, not 1',
    ],
  ],
];

for (const [text, problems] of BAD_SECTIONS) {
  t.test(
    `a mistake is reported with a correction: ${JSON.stringify(text.split('\n').slice(2))}`,
    (t) => {
      t.strictSame(problemsOf(text), problems);
      t.end();
    },
  );
}

t.test(
  'for old-style names, an unused source, and failover without a second source, are warnings',
  (t) => {
    t.strictSame(
      warningsOf(withOldStyle('  served_by: [{ sources: [s], failover: { hold: 1s } }]')),
      [
        '1:28: sources.r: no authority uses this source',
        '3:43: old_style_names.served_by[0].failover.hold: has no effect: there is one source',
      ],
    );
    t.end();
  },
);
