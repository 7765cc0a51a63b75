/** `diff`: what would change for clients if another source were forced. */
import type { Diff, DifferenceRow, GroupDiff } from '../admin/diff.js';
import { SERVED } from '../admin/diff-question.js';
import { adminTarget, askAdmin, errorOf, queryOf } from './admin-client.js';
import { ADMIN_FLAGS, EXIT, type Command } from './command.js';
import { printed, TEXT_OUTPUT } from './output.js';
import { tableText } from './table.js';

/** As diff(1): every trouble has this exit code. */
const TROUBLE = EXIT.usage;

/** Longer than the gateway may wait for the other source. */
const TIMEOUT_MS = 29_000;

export const diff: Command = {
  name: 'diff',
  positionals: [{ name: 'AUTHORITY' }],
  flags: [
    {
      name: 'to',
      value: '[GROUP/]SOURCE',
      meaning: 'The source that would be forced. Default: the other one, if a group has two.',
    },
    {
      name: 'from',
      value: '[GROUP/]SOURCE',
      meaning: 'The source to compare it with. Default: what clients are served now.',
    },
    {
      name: 'wait',
      value: 'DURATION',
      meaning: 'How long the sources may take to answer, at most 20s. Default: 10s.',
    },
    ...ADMIN_FLAGS,
    TEXT_OUTPUT,
  ],
  meaning:
    'Prints what would change for clients if another source were forced. Exits with 0 without differences, 1 with some, 2 on errors.',
  run: async (given, shell) => {
    const [authority = ''] = given.positionals;
    const query = queryOf({
      to: given.text('to'),
      from: given.text('from'),
      wait: given.text('wait'),
    });
    const path = `/authorities/${encodeURIComponent(authority)}/diff${query}`;
    const answer = await askAdmin(adminTarget(given, shell.env), path, 'POST', TIMEOUT_MS);
    if (!answer.ok || answer.status !== 200) {
      shell.err(`${answer.ok ? errorOf(answer.value) : answer.message}\n`);
      return TROUBLE;
    }
    const found = answer.value as Diff;
    shell.out(printed(found, given, diffText(found)));
    return found.differences === 0 ? EXIT.ok : EXIT.no;
  },
};

const diffText = ({ groups }: Diff): string => groups.map(groupText).join('\n');

function groupText(diff: GroupDiff): string {
  const { group, from, to, same, counts, names } = diff;
  const told = Object.entries(counts).filter(([, count]) => count > 0);
  const words = [...told.map(([kind, count]) => `${count} ${kind}`), `${same} the same`];
  const head = `${group}: from ${from} to ${to}: ${words.join(', ')}\n`;
  if (names.length === 0) return head;
  const all = told.reduce((sum, [, count]) => sum + count, 0);
  const more = all > names.length ? `and ${all - names.length} more\n` : '';
  return head + tableText(names.map(cellsOf)) + more + notes(diff);
}

const MARK: Readonly<Record<DifferenceRow['kind'], string>> = {
  added: '+',
  changed: '~',
  removed: '-',
  kept: '=',
  unanswered: '?',
};

const cellsOf = ({ kind, type, name, before, after }: DifferenceRow): readonly string[] => [
  MARK[kind],
  kind,
  type,
  name,
  [before, after].filter((version) => version !== undefined).join(' → '),
];

/** What two of the kinds mean for clients, which is not in their names. */
function notes({ from, to, counts }: GroupDiff): string {
  const asked = from === SERVED ? to : `${from} or ${to}`;
  const kept = `kept: ${to} does not have them, and clients keep what they hold\n`;
  const unanswered = `unanswered: ${asked} gave no usable answer in time, and clients keep what they hold\n`;
  return (counts.kept > 0 ? kept : '') + (counts.unanswered > 0 ? unanswered : '');
}
