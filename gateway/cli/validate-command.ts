/** `validate`: checks an authority map. Other commands start without loading what reads it. */
import type { Command } from './command.js';
import { TEXT_OUTPUT } from './output.js';

export const validate: Command = {
  name: 'validate',
  positionals: [{ name: 'FILE' }],
  flags: [
    {
      name: 'settings',
      value: 'FILE',
      meaning:
        'Checks this settings file too, the files that it names, and whether it fits the map.',
    },
    TEXT_OUTPUT,
  ],
  meaning:
    'Checks an authority map and the files that it names, and prints every problem with its line.',
  run: async (given, shell) => (await import('./validate.js')).validateMap(given, shell),
};
