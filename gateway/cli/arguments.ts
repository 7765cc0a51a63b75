/** Positional arguments and flags of the commands other than `serve`. */
import { parseArgs } from 'node:util';
import { didYouMean } from '../../config/nearest.js';
import { UsageError } from './command.js';

export interface Arguments {
  readonly positionals: readonly string[];
  readonly text: (flag: string) => string | undefined;
  readonly isSet: (flag: string) => boolean;
}

type FlagKinds = Readonly<Record<string, 'string' | 'boolean'>>;

/**
 * @param names of the required positional arguments
 * @throws UsageError with a correction.
 */
export function readArguments(
  argv: readonly string[],
  names: readonly string[],
  flags: FlagKinds,
): Arguments {
  const options = Object.fromEntries(Object.entries(flags).map(([name, type]) => [name, { type }]));
  let parsed: ReturnType<typeof parseArgs>;
  try {
    parsed = parseArgs({ args: [...argv], options, allowPositionals: true, strict: true });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new UsageError(unknownFlag(argv, flags) ?? message);
  }
  const { positionals, values } = parsed;
  if (positionals.length < names.length) {
    throw new UsageError(`${names[positionals.length] ?? 'an argument'} is missing`);
  }
  const extra = positionals[names.length];
  if (extra !== undefined) throw new UsageError(`unexpected argument "${extra}"`);
  return {
    positionals,
    text: (flag) => {
      const value = values[flag];
      return typeof value === 'string' ? value : undefined;
    },
    isSet: (flag) => values[flag] === true,
  };
}

function unknownFlag(argv: readonly string[], flags: FlagKinds): string | undefined {
  const known = Object.keys(flags).map((flag) => `--${flag}`);
  const written = argv.map((argument) => argument.split('=')[0] ?? '');
  const unknown = written.find((argument) => argument.startsWith('-') && !known.includes(argument));
  if (unknown === undefined) return undefined;
  const hint = didYouMean(unknown, known);
  return `unknown flag ${unknown}${hint === undefined ? '' : ` (${hint})`}`;
}
