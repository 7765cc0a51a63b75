/** `watch`: every change of a name, or of the members of a glob, as it happens. */
import type { ChangeLine } from '../admin/watch.js';
import { oneLine } from '../telemetry/line-fields.js';
import { adminTarget, readAdminLines } from './admin-client.js';
import { ADMIN_FLAGS, EXIT, UsageError, type Command } from './command.js';

export const watch: Command = {
  name: 'watch',
  positionals: [{ name: 'URN' }],
  flags: [
    {
      name: 'count',
      value: 'N',
      meaning: 'Ends after N changes. Default: runs until it is stopped.',
    },
    ...ADMIN_FLAGS,
    {
      name: 'output',
      short: 'o',
      value: 'FORM',
      choices: ['text', 'json'],
      meaning: 'Form of the output: text (default), or json with one object a line.',
    },
  ],
  meaning: 'Prints every change of a name, or of the members of a glob, as it happens.',
  run: async (given, shell) => {
    const [urn = ''] = given.positionals;
    if (!urn.startsWith('xdstp:'))
      throw new UsageError(`watch takes xdstp:// names only, not "${urn}" (get shows others)`);
    const count = given.text('count') ?? 'Infinity';
    if (!/^([1-9]\d{0,8}|Infinity)$/.test(count)) {
      throw new UsageError(`--count ${count} is not a number of changes (write e.g. --count 1)`);
    }
    let left = Number(count);
    const target = adminTarget(given, shell.env);
    const end = await readAdminLines(target, `/watch/${encodeURIComponent(urn)}`, (line) => {
      shell.out(given.text('output') === 'json' ? `${line}\n` : textOf(line));
      return --left > 0;
    });
    if (end.ok) return EXIT.ok;
    shell.err(`${end.message}\n`);
    return end.isRefused ? EXIT.no : EXIT.unreachable;
  },
};

function textOf(line: string): string {
  const { at, kind, name, version, source, message, count } = JSON.parse(line) as ChangeLine;
  const words = [
    at,
    kind,
    name,
    ...(version === undefined ? [] : [`version ${version}`]),
    ...(source === undefined ? [] : [`from ${source}`]),
    ...(count === undefined ? [] : [`${count} members`]),
    ...(message === undefined ? [] : [message]),
  ];
  return `${words.map(oneLine).join('  ')}\n`;
}
