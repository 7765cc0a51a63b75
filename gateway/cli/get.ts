/** `get`: prints a resource as clients receive it. */
import { adminTarget, askAdmin } from './admin-client.js';
import { ADMIN_FLAGS, type Command } from './command.js';
import { tellAnswer, YAML_OUTPUT } from './output.js';

export const get: Command = {
  name: 'get',
  positionals: [{ name: 'URN' }],
  flags: [...ADMIN_FLAGS, YAML_OUTPUT],
  meaning: 'Prints a resource as clients receive it, without secrets.',
  run: async (given, shell) => {
    const [urn = ''] = given.positionals;
    const target = adminTarget(given, shell.env);
    return tellAnswer(
      await askAdmin(target, `/resources/${encodeURIComponent(urn)}`),
      given,
      shell,
    );
  },
};
