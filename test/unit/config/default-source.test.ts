/**
 * Goal: `default_config_source` gives sources to the names that no other section has, and a mistake in
 * it is reported at its place, with a correction.
 */
import t from 'tap';
import { parseAuthorityMap } from '../../../config/authority-map.js';
import { formatProblem } from '../../../config/problems.js';

const FILE = '/etc/map.yaml';
const SOURCES = 'sources: { s: { path: . }, r: { path: . } }\n';

function mapOf(text: string) {
  const result = parseAuthorityMap(text, { file: FILE });
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join('\n'));
  return { ...result.map, warnings: result.warnings.map(formatProblem) };
}

function problemsOf(text: string): readonly string[] {
  const result = parseAuthorityMap(text, { file: FILE });
  const problems = result.ok ? [] : result.problems;
  return problems.map((problem) => formatProblem(problem).replace(`${FILE}:`, ''));
}

t.test('it serves other authorities, and old-style names if no section does', (t) => {
  const section = 'default_config_source: { sources: [s, r], failover: { hold: 5s } }\n';
  const map = mapOf(SOURCES + section);
  t.match(map.defaultSource, {
    name: 'default/config_source',
    sources: ['s', 'r'],
    failover: { holdMs: 5_000 },
  });
  t.match(map.oldStyle, {
    differBy: ['id', 'cluster'],
    servedBy: [{ name: 'old-style/0', sources: ['s', 'r'], failover: { holdMs: 5_000 } }],
  });
  t.strictSame(map.warnings, [], 'its sources are used');
  const both = mapOf(`${SOURCES}${section}old_style_names: { served_by: [{ sources: [r] }] }\n`);
  t.match(both.oldStyle?.servedBy, [{ sources: ['r'] }]);
  t.equal(mapOf(`${SOURCES}authorities: { a: { sources: [s, r] } }\n`).defaultSource, undefined);
  t.end();
});

t.test('ads: {} and self: {} in a pasted list mean its sources', (t) => {
  for (const form of ['ads: {}', 'self: { transport_api_version: V3 }', 'ads: ']) {
    const listed = `config_sources:\n- { authorities: [{ name: a }], ${form}, resource_api_version: V3 }\n`;
    const text = `${SOURCES}${listed}default_config_source: { sources: [s, r] }\n`;
    if (form === 'ads: ') {
      t.match(problemsOf(text), [/ads: must be a map/]);
      continue;
    }
    const { authorities, sources, warnings } = mapOf(text);
    t.match(authorities.get('a'), { sources: ['s', 'r'] }, form);
    t.strictSame([...sources.keys()], ['s', 'r']);
    t.strictSame(warnings, []);
  }
  t.end();
});

const DEFAULT = 'default_config_source: { sources: [s, r] }\n';

t.test('each mistake is reported at its place, with a correction', (t) => {
  for (const [text, problems] of [
    [
      `${SOURCES}default_config_source: { sources: [t] }\n`,
      [/^2:36: default_config_source\.sources\[0\]: unknown source "t"/],
    ],
    [`${SOURCES}default_config_source: {}\n`, ['2:1: default_config_source: has no sources']],
    [
      `${SOURCES}default_config_source: s\n`,
      ['2:24: default_config_source: must be a map, not "s"'],
    ],
    [
      `${SOURCES}default_config_source: { sources: [s], ads: {} }\n`,
      [
        '2:40: default_config_source.ads: ads is not supported yet (give the source a name under sources, and write default_config_source: { sources: [name] })',
      ],
    ],
    [
      `${SOURCES}config_sources: [{ authorities: [{ name: a }], ads: {} }]\nauthorities: { b: { sources: [s] } }\n`,
      [
        '2:48: config_sources[0].ads: means default_config_source, which the map does not have (write default_config_source: { sources: [name of a source] })',
      ],
    ],
    [
      `${SOURCES}${DEFAULT}config_sources: [{ authorities: [{ name: a }], ads: {}, path: . }]\n`,
      ['3:18: config_sources[0]: has more than one of ads, path (keep one)'],
    ],
    [
      `${SOURCES}${DEFAULT}config_sources: [{ authorities: [{ name: a }], self: {}, timers: {} }]\n`,
      [
        '3:58: config_sources[0].timers: is not allowed with self (set it in the sources of default_config_source)',
      ],
    ],
    [
      `${SOURCES}${DEFAULT}config_sources: [{ ads: {} }]\n`,
      [/^3:18: config_sources\[0\]: has no authorities/],
    ],
    [
      `${SOURCES}default_config_source: { sources: ["config_sources[0]"] }\nconfig_sources: [{ authorities: [{ name: a }], ads: {} }]\n`,
      [/^2:36: .*unknown source "config_sources\[0\]"/],
    ],
    [
      `sources: { s: { config_source: { ads: {} } } }\n${DEFAULT.replace(', r', '')}`,
      [/^1:34: sources\.s\.config_source\.ads: ads is not supported yet/],
    ],
  ] as const) {
    t.match(problemsOf(text), problems, text);
  }
  t.end();
});

t.test('a setting that has no effect is a warning', (t) => {
  const listed = `config_sources: [{ authorities: [{ name: a }], ads: {}, initial_fetch_timeout: 5s }]\n`;
  t.match(mapOf(SOURCES + DEFAULT + listed).warnings, [/initial_fetch_timeout: has no effect/]);
  const single = 'default_config_source: { sources: [s], failover: { hold: 5s } }\n';
  t.match(mapOf(`sources: { s: { path: . } }\n${single}`).warnings, [/hold: has no effect/]);
  t.end();
});
