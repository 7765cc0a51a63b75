/** `get`: prints a resource as clients receive it. */
import { adminTarget, askAdmin, queryOf } from './admin-client.js';
import { ADMIN_FLAGS, type Command } from './command.js';
import { tellAnswer, YAML_OUTPUT } from './output.js';

export const get: Command = {
  name: 'get',
  positionals: [{ name: 'URN' }],
  flags: [
    { name: 'type', value: 'TYPE', meaning: 'The type of an old-style name, such as Cluster.' },
    ...ADMIN_FLAGS,
    YAML_OUTPUT,
  ],
  meaning: 'Prints a resource as clients receive it, without secrets.',
  run: async (given, shell) => {
    const [urn = ''] = given.positionals;
    const target = adminTarget(given, shell.env);
    const query = queryOf({ type: given.text('type') });
    const answer = await askAdmin(target, `/resources/${encodeURIComponent(urn)}${query}`);
    return tellAnswer(answer, given, shell);
  },
};
