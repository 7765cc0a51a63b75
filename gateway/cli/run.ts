/** The command line: selects the command, and prints the overview and the help. */
import { didYouMean } from '../../config/nearest.js';
import { VERSION } from '../version.js';
import { readArguments } from './arguments.js';
import { bootstrap } from './bootstrap.js';
import {
  EXIT,
  UsageError,
  type Command,
  type ExitCode,
  type Flag,
  type RawCommand,
  type Shell,
} from './command.js';
import { completionCommand } from './completion.js';
import { demo } from './demo.js';
import { diff } from './diff.js';
import { explain } from './explain-command.js';
import { force, release } from './force.js';
import { get } from './get.js';
import { history } from './history.js';
import { importCommand } from './import.js';
import { invalidate } from './invalidate.js';
import { serveCommand } from './serve-command.js';
import { clients, status } from './status.js';
import { validate } from './validate-command.js';
import { watch } from './watch.js';

/** In the order of the overview. */
export const COMMANDS: readonly (Command | RawCommand)[] = [
  serveCommand,
  validate,
  importCommand,
  bootstrap,
  explain,
  get,
  watch,
  status,
  clients,
  history,
  diff,
  force,
  release,
  invalidate,
  demo,
  completionCommand(() => COMMANDS),
];

const NAMES: readonly string[] = COMMANDS.map(({ name }) => name);

/** @param argv arguments without node and script: `process.argv.slice(2)` */
export async function run(argv: readonly string[], shell: Shell): Promise<ExitCode> {
  const [first, ...rest] = argv;
  if (first === '--version') {
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
  // `serve` has no such flag. Values of its flags may be words like the names of commands.
  const late = first === '--admin' ? rest.find((word) => NAMES.includes(word)) : undefined;
  if (late !== undefined) {
    const others = argv.filter((word) => word !== late).join(' ');
    shell.err(`write the command first: tributary ${late} ${others}\n`);
    return EXIT.usage;
  }
  // Flags without a command are settings of the gateway.
  if (first.startsWith('--')) return serveCommand.runRaw(argv, shell);
  const command = COMMANDS.find(({ name }) => name === first);
  if (!command) {
    const hint = didYouMean(first, NAMES);
    shell.err(`unknown command "${first}" (${hint ?? 'see tributary --help'})\n`);
    return EXIT.usage;
  }
  if ('runRaw' in command) return command.runRaw(rest, shell);
  if (rest.includes('--help') || rest.includes('-h')) {
    shell.out(helpOf(command));
    return EXIT.ok;
  }
  try {
    return await command.run(readArguments(rest, command), shell);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    shell.err(`${error.message}\n${usageOf(command)}\n`);
    return EXIT.usage;
  }
}

type Described = Pick<Command, 'name' | 'positionals' | 'flags' | 'meaning'>;

function usageOf({ name, positionals, flags }: Described): string {
  const words = [
    'Usage: tributary',
    name,
    ...positionals.map((positional) => positional.name),
    ...(flags.length > 0 ? ['[flags]'] : []),
  ];
  return words.join(' ');
}

function helpOf(command: Described): string {
  const flags = command.flags.flatMap((flag) => [`  ${flagWords(flag)}`, `      ${flag.meaning}`]);
  const lines = flags.length === 0 ? [] : ['', ...flags];
  return `${[usageOf(command), '', command.meaning, ...lines].join('\n')}\n`;
}

const flagWords = ({ name, short, value }: Flag): string =>
  `${short === undefined ? '' : `-${short}, `}--${name}${value === undefined ? '' : ` ${value}`}`;

function overview(): string {
  const lines = COMMANDS.map(
    (command) => `  ${usageOf(command).replace('Usage: ', '')}\n      ${command.meaning}`,
  );
  return `Tributary ${VERSION}: a federated xDS gateway with failover.

${lines.join('\n')}
  tributary COMMAND --help, tributary --version

The admin address is 127.0.0.1:18900 unless --admin says otherwise. If it requires a token, add
--admin-token-file FILE. If it uses TLS, add --admin-tls, or --admin-ca, --admin-cert and --admin-key.
Exit codes: 0 success; 1 negative result; 2 wrong command line, settings or map;
3 the gateway cannot start; 4 no gateway responds.
`;
}
