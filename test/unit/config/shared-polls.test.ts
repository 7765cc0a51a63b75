/**
 * Goal: a REST source whose polls would have the wildcard of old-style names and names of authorities together is
 * a warning, and no other source is.
 */
import t from 'tap';
import { parseAuthorityMap } from '../../../config/authority-map.js';
import { formatProblem } from '../../../config/problems.js';

/** @param authority,old members of a source each, besides its target */
function warningsOf(authority: string, old: string, differBy = '[]'): readonly string[] {
  const text =
    `sources:\n  a: { target: "s:1", ${authority} }\n  o: { target: "s:1", ${old} }\n` +
    `authorities: { x: { sources: [a] } }\n` +
    `old_style_names: { differ_by: ${differBy}, served_by: [{ sources: [o] }] }\n`;
  const result = parseAuthorityMap(text, { file: '/map.yaml' });
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join('\n'));
  return result.warnings.map(formatProblem);
}

const rest = 'api_type: REST, insecure: true';
const node = `${rest}, node: { id: n }`;
const warning =
  '/map.yaml:2:3: sources.a: is polled for old-style names and for names of authorities together, and a poll cannot ' +
  'request a wildcard and names at once: listeners and clusters of the authorities come only if the wildcard has them ' +
  'too (write two sources whose node has another id)';

t.test(
  'polls that all clients share are a warning, whatever the keys of the source (invariant 8)',
  (t) => {
    t.strictSame(warningsOf(rest, rest), [warning]);
    t.strictSame(warningsOf(node, node, '[id]'), [warning], 'a Node of its own');
    t.end();
  },
);

t.test('sources that differ, and polls of a node group, cause no warning', (t) => {
  t.strictSame(warningsOf(rest, rest, '[id]'), [], 'a group has polls of its own');
  t.strictSame(warningsOf(rest, rest, 'all'), []);
  t.strictSame(warningsOf(rest, node), [], 'the remedy');
  const stream = 'api_type: GRPC, insecure: true';
  t.strictSame(warningsOf(stream, stream), [], 'a stream has both');
  t.end();
});

t.test('a source that tells clients apart has polls for each of them', (t) => {
  const token = 'api_type: REST, node: { id: n }, forward_headers: [a]';
  const text =
    `sources: { s: { target: "s:1", ${token} } }\nauthorities: { x: { sources: [s] } }\n` +
    'old_style_names: { differ_by: [], served_by: [{ sources: [s] }] }\n';
  const result = parseAuthorityMap(text, { file: '/map.yaml' });
  const warnings = result.ok ? result.warnings.map(formatProblem) : [];
  t.equal(warnings.length, 1);
  t.match(warnings[0], 'forward_headers: applies to old-style names only');
  t.end();
});
