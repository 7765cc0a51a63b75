/** `force` and `release`: an operator overrides failover. */
import { stringify } from 'yaml';
import { adminTarget, askAdmin, queryOf } from './admin-client.js';
import {
  ADMIN_FLAGS,
  type Arguments,
  type Command,
  type ExitCode,
  type Flag,
  type Shell,
} from './command.js';
import { tellAnswer, YAML_OUTPUT } from './output.js';

/** Of the groups that an order moved, this many are printed: each node group may have one. */
const MAX_GROUPS = 20;

const OUTPUT: Flag = {
  ...YAML_OUTPUT,
  meaning: `Form of the output: yaml or json. Default: yaml with at most ${MAX_GROUPS} groups.`,
};

const GROUP: Flag = {
  name: 'group',
  value: 'GROUP',
  meaning: 'Only this group of the authority. Default: all.',
};

export const force: Command = {
  name: 'force',
  positionals: [{ name: 'AUTHORITY' }, { name: 'SOURCE' }],
  flags: [
    { name: 'for', value: 'DURATION', meaning: 'How long, such as 1h. Default: 10m.' },
    GROUP,
    ...ADMIN_FLAGS,
    OUTPUT,
  ],
  meaning: 'Forces one source for an authority, whatever its health, for a limited time.',
  run: (given, shell) => {
    const [, source] = given.positionals;
    return order('force', { source, for: given.text('for') }, given, shell);
  },
};

export const release: Command = {
  name: 'release',
  positionals: [{ name: 'AUTHORITY' }],
  flags: [GROUP, ...ADMIN_FLAGS, OUTPUT],
  meaning: 'Ends a forced source early.',
  run: (given, shell) => order('release', {}, given, shell),
};

async function order(
  verb: string,
  parameters: Readonly<Record<string, string | undefined>>,
  given: Arguments,
  shell: Shell,
): Promise<ExitCode> {
  const [authority = ''] = given.positionals;
  const query = queryOf({ ...parameters, group: given.text('group') });
  const path = `/authorities/${encodeURIComponent(authority)}/${verb}${query}`;
  const target = adminTarget(given, shell.env);
  const answer = await askAdmin(target, path, 'POST');
  return tellAnswer(answer, given, shell, (value) => orderText(value as Ordered));
}

interface Ordered {
  readonly groups: readonly unknown[];
}

/** YAML for people: the last line counts the groups that it leaves out. */
function orderText(ordered: Ordered): string {
  const left = ordered.groups.length - MAX_GROUPS;
  const shown = stringify({ ...ordered, groups: ordered.groups.slice(0, MAX_GROUPS) });
  return left > 0 ? `${shown}# and ${left} more; -o json prints all\n` : shown;
}
