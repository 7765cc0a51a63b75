/** `serve`: runs the gateway. Other commands start without loading it. */
import { settingFlags } from '../../config/settings-reference.js';
import type { RawCommand } from './command.js';

export const serveCommand: RawCommand = {
  name: 'serve',
  positionals: [],
  flags: settingFlags(),
  meaning: 'Runs the gateway. "tributary serve --help" lists all settings.',
  runRaw: async (argv, shell) => (await import('./serve.js')).serve(argv, shell),
};
