/** `invalidate`: requests names from their sources again. */
import { isXdstp } from '../../protos/resource-name.js';
import { adminTarget, askAdmin, queryOf } from './admin-client.js';
import { ADMIN_FLAGS, EXIT, type Command } from './command.js';
import { tellAnswer, YAML_OUTPUT } from './output.js';

export const invalidate: Command = {
  name: 'invalidate',
  positionals: [{ name: 'URN|AUTHORITY' }],
  flags: [...ADMIN_FLAGS, YAML_OUTPUT],
  meaning: 'Requests names from their sources again, at all instances of the cluster.',
  run: async (given, shell) => {
    const [what = ''] = given.positionals;
    const query = queryOf(isXdstp(what) ? { name: what } : { authority: what });
    const target = adminTarget(given, shell.env);
    const answer = await askAdmin(target, `/invalidate${query}`, 'POST');
    const code = tellAnswer(answer, given, shell);
    if (code !== EXIT.ok || !answer.ok || isRequested(answer.value)) return code;
    shell.err(`nothing was requested: no client subscribes to ${what}, and no peer was told\n`);
    return EXIT.no;
  },
};

/** A gateway of another version may not say it. */
function isRequested(value: unknown): boolean {
  const said = value as { readonly askedHere?: boolean; readonly toldOthers?: boolean };
  return said.askedHere !== false || said.toldOthers !== false;
}
