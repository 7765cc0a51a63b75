/** `get`: prints a resource as clients receive it. */
import { adminAddress, askAdmin } from './admin-client.js';
import { ADMIN_FLAG, type Command } from './command.js';
import { tellAnswer, YAML_OUTPUT } from './output.js';

export const get: Command = {
  name: 'get',
  positionals: [{ name: 'URN' }],
  flags: [ADMIN_FLAG, YAML_OUTPUT],
  meaning: 'Prints a resource as clients receive it, without secrets.',
  run: async (given, shell) => {
    const [urn = ''] = given.positionals;
    const address = adminAddress(given.text('admin'), shell.env);
    return tellAnswer(
      await askAdmin(address, `/resources/${encodeURIComponent(urn)}`),
      given,
      shell,
    );
  },
};
