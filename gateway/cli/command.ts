/** What every command of the command line is made of. */

/** Where a command writes, and what it reads. */
export interface Shell {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

/** How the process ends; the table in docs/OPERATIONS.md. */
export const EXIT = {
  ok: 0,
  /** The answer is no: an invalid file, nothing under this name, an order that was refused. */
  no: 1,
  /** Wrong command line, settings, or authority map to start with. */
  usage: 2,
  /** The gateway cannot start, e.g. a port is taken. */
  cannotStart: 3,
  /** No gateway answers at the admin address. */
  unreachable: 4,
} as const;
export type ExitCode = number;

export interface Command {
  readonly name: string;
  /** After the name, e.g. `FILE`. */
  readonly synopsis: string;
  readonly meaning: string;
  readonly run: (argv: readonly string[], shell: Shell) => Promise<ExitCode>;
}

/** A command line that cannot be understood; `run` tells it and ends with `EXIT.usage`. */
export class UsageError extends Error {}
