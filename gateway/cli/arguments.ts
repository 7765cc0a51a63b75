/**
 * Positional arguments and flags of the commands other than `serve`, by `parseArgs` of Node.js. Help and
 * completion come from the same declarations. Libraries for command lines need about as much code around
 * them here: none completes in bash, zsh and fish, and `serve` takes its flags from the table of settings.
 */
import { parseArgs } from 'node:util';
import { didYouMean } from '../../config/nearest.js';
import { UsageError, type Arguments, type Command, type Flag } from './command.js';

type Declared = Pick<Command, 'positionals' | 'flags'>;

/** @throws UsageError with a correction. */
export function readArguments(argv: readonly string[], command: Declared): Arguments {
  const { flags } = command;
  const options = Object.fromEntries(
    flags.map(({ name, short, value }) => [
      name,
      { type: value === undefined ? 'boolean' : 'string', ...(short ? { short } : {}) } as const,
    ]),
  );
  let parsed: ReturnType<typeof parseArgs>;
  try {
    parsed = parseArgs({
      args: [...argv],
      options,
      allowPositionals: true,
      strict: true,
      tokens: true,
    });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new UsageError(unknownFlag(argv, flags) ?? message);
  }
  const { positionals, values, tokens = [] } = parsed;
  checkPositionals(positionals, command);
  checkOnce(tokens);
  for (const { name, choices } of flags) {
    const value = values[name];
    if (choices && typeof value === 'string') checkChoice(`--${name}`, value, choices);
  }
  return {
    positionals,
    text: (flag) => {
      const value = values[flag];
      return typeof value === 'string' ? value : undefined;
    },
    isSet: (flag) => values[flag] === true,
  };
}

function checkPositionals(given: readonly string[], { positionals }: Declared): void {
  for (const [index, { name, choices }] of positionals.entries()) {
    const value = given[index];
    if (value === undefined) throw new UsageError(`${name} is missing`);
    if (choices) checkChoice(name, value, choices);
  }
  const extra = given[positionals.length];
  if (extra !== undefined) throw new UsageError(`unexpected argument "${extra}"`);
}

/** Node.js would take the last value, and a command for another gateway than the first one says could go unnoticed. */
function checkOnce(tokens: NonNullable<ReturnType<typeof parseArgs>['tokens']>): void {
  const given = new Set<string>();
  for (const token of tokens) {
    if (token.kind !== 'option' || token.value === undefined) continue;
    if (given.has(token.name)) throw new UsageError(`--${token.name} is given twice`);
    given.add(token.name);
  }
}

function checkChoice(what: string, value: string, choices: readonly string[]): void {
  if (choices.includes(value)) return;
  const hint = didYouMean(value, choices) ?? `write ${choices.join(' or ')}`;
  throw new UsageError(`${what}: "${value}" is not known (${hint})`);
}

function unknownFlag(argv: readonly string[], flags: readonly Flag[]): string | undefined {
  const known = flags.flatMap(({ name, short }) => [
    `--${name}`,
    ...(short === undefined ? [] : [`-${short}`]),
  ]);
  const written = argv.map((argument) => argument.split('=')[0] ?? '');
  const unknown = written.find((argument) => argument.startsWith('-') && !known.includes(argument));
  if (unknown === undefined) return undefined;
  const hint = didYouMean(unknown, known);
  return `unknown flag ${unknown}${hint === undefined ? '' : ` (${hint})`}`;
}
