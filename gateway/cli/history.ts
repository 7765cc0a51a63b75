/** `history`: the last switches of an authority. */
import { roundedDuration } from '../../config/durations.js';
import type { SwitchRow } from '../admin/history.js';
import { adminTarget, askAdmin } from './admin-client.js';
import { ADMIN_FLAGS, type Command } from './command.js';
import { tellAnswer, TEXT_OUTPUT } from './output.js';
import { tableText } from './table.js';

export const history: Command = {
  name: 'history',
  positionals: [{ name: 'AUTHORITY' }],
  flags: [...ADMIN_FLAGS, TEXT_OUTPUT],
  meaning: 'Prints the last switches of an authority: when, why, how long, and how many names.',
  run: async (given, shell) => {
    const [authority = ''] = given.positionals;
    const path = `/authorities/${encodeURIComponent(authority)}/history`;
    const answer = await askAdmin(adminTarget(given, shell.env), path);
    return tellAnswer(answer, given, shell, (value) => historyText(value as History));
  },
};

interface History {
  readonly authority: string;
  readonly switches: readonly SwitchRow[];
}

function historyText({ authority, switches }: History): string {
  if (switches.length === 0) return `${authority} has not switched since the gateway started\n`;
  return tableText([
    ['WHEN', 'GROUP', 'FROM', 'TO', 'WHY', 'AFTER THE LOSS', 'LASTED', 'CHANGED', 'KEPT'],
    ...switches.map((one) => [
      one.at,
      one.group,
      one.from,
      one.to,
      one.reason,
      one.sinceLossMs === undefined ? '-' : roundedDuration(one.sinceLossMs),
      one.lastedMs === undefined ? 'until now' : roundedDuration(one.lastedMs),
      String(one.changed),
      String(one.kept),
    ]),
  ]);
}
