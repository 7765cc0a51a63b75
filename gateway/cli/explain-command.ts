/** `explain`: says which sources a name has, and which resource is served under it. */
import { AS_FORMS } from '../admin/explain-rights.js';
import { ADMIN_FLAGS, type Command } from './command.js';
import { TEXT_OUTPUT } from './output.js';

export const explain: Command = {
  name: 'explain',
  positionals: [{ name: 'URN' }],
  flags: [
    ...ADMIN_FLAGS,
    { name: 'authority-map', value: 'FILE', meaning: 'Explains this map if no gateway responds.' },
    { name: 'offline', meaning: 'Explains the map without a gateway.' },
    { name: 'type', value: 'TYPE', meaning: 'The type of an old-style name, such as Cluster.' },
    {
      name: 'as',
      value: 'IDENTITY',
      meaning: `Adds which rule decides for a client: ${AS_FORMS}.`,
    },
    { name: 'address', value: 'IP', meaning: 'The address of that client.' },
    { name: 'node-id', value: 'ID', meaning: 'The node id of that client.' },
    TEXT_OUTPUT,
  ],
  meaning: 'Prints the sources of a name, the name requested from each, and what is served.',
  run: async (given, shell) => (await import('./explain.js')).explainName(given, shell),
};
