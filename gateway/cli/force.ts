/** `force` and `release`: an operator overrides failover. */
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
    YAML_OUTPUT,
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
  flags: [GROUP, ...ADMIN_FLAGS, YAML_OUTPUT],
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
  return tellAnswer(await askAdmin(target, path, 'POST'), given, shell);
}
