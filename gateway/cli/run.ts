/** The command line: selects the command, and prints the overview and the help. */
import { didYouMean } from '../../config/nearest.js';
import { VERSION } from '../version.js';
import { EXIT, UsageError, type Command, type ExitCode, type Shell } from './command.js';
import { explain, validate } from './inspect.js';
import { force, get, invalidate, release } from './remote.js';
import { serve } from './serve.js';

export const COMMANDS: readonly Command[] = [
  {
    name: 'serve',
    synopsis: '--authority-map FILE [flags]',
    meaning: 'Runs the gateway. "tributary serve --help" lists all settings.',
    run: serve,
  },
  {
    name: 'validate',
    synopsis: 'FILE',
    meaning: 'Checks an authority map and prints every problem with its line.',
    run: validate,
  },
  {
    name: 'explain',
    synopsis: 'URN [--admin HOST:PORT] [--authority-map FILE [--offline]] [--json]',
    meaning: 'Prints the sources of a name, the name requested from each, and what is served.',
    run: explain,
  },
  {
    name: 'get',
    synopsis: 'URN [--admin HOST:PORT] [--json]',
    meaning: 'Prints a resource as clients receive it, without secrets.',
    run: get,
  },
  {
    name: 'force',
    synopsis: 'AUTHORITY SOURCE [--for 10m] [--group GROUP] [--admin HOST:PORT] [--json]',
    meaning: 'Forces one source for an authority, whatever its health, for a limited time.',
    run: force,
  },
  {
    name: 'release',
    synopsis: 'AUTHORITY [--group GROUP] [--admin HOST:PORT] [--json]',
    meaning: 'Ends a forced source early.',
    run: release,
  },
  {
    name: 'invalidate',
    synopsis: 'URN|AUTHORITY [--admin HOST:PORT] [--json]',
    meaning: 'Requests names from their sources again, at all instances of the cluster.',
    run: invalidate,
  },
];

/** @param argv arguments without node and script: `process.argv.slice(2)` */
export async function run(argv: readonly string[], shell: Shell): Promise<ExitCode> {
  const [first, ...rest] = argv;
  if (first === '--version' || (first === 'serve' && rest.includes('--version'))) {
    shell.out(`${VERSION}\n`);
    return EXIT.ok;
  }
  if (first === '--help' || first === '-h' || first === 'help') {
    shell.out(overview());
    return EXIT.ok;
  }
  if (first === undefined) {
    shell.err(overview());
    return EXIT.usage;
  }
  // Flags without a command are settings of the gateway.
  if (first.startsWith('--')) return serve(argv, shell);
  const command = COMMANDS.find(({ name }) => name === first);
  if (!command) {
    const hint = didYouMean(
      first,
      COMMANDS.map(({ name }) => name),
    );
    shell.err(`unknown command "${first}" (${hint ?? 'see tributary --help'})\n`);
    return EXIT.usage;
  }
  if (command.name !== 'serve' && (rest.includes('--help') || rest.includes('-h'))) {
    shell.out(`Usage: tributary ${command.name} ${command.synopsis}\n\n${command.meaning}\n`);
    return EXIT.ok;
  }
  try {
    return await command.run(rest, shell);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    shell.err(`${error.message}\nUsage: tributary ${command.name} ${command.synopsis}\n`);
    return EXIT.usage;
  }
}

function overview(): string {
  const lines = COMMANDS.map(
    ({ name, synopsis, meaning }) => `  tributary ${name} ${synopsis}\n      ${meaning}`,
  );
  return `Tributary ${VERSION}: a federated xDS gateway with failover.

${lines.join('\n')}
  tributary --help, --version

The admin address is 127.0.0.1:18900 unless --admin says otherwise.
Exit codes: 0 success; 1 negative result; 2 wrong command line, settings or map;
3 the gateway cannot start; 4 no gateway responds.
`;
}
