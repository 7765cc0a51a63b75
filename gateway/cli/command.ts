/** The common types of all commands. */

/** The environment of a command: variables, stdout and stderr. */
export interface Shell {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

/** Exit codes of the process; see the table in docs/OPERATIONS.md. */
export const EXIT = {
  ok: 0,
  /** Negative result: invalid file, no resource under the name, or the gateway refused the command. */
  no: 1,
  /** Wrong command line or settings, or no valid authority map at start. */
  usage: 2,
  /** The gateway cannot start, e.g. a port is taken. */
  cannotStart: 3,
  /** No gateway responds at the admin address. */
  unreachable: 4,
} as const;
export type ExitCode = number;

export interface Command {
  readonly name: string;
  /** Arguments and flags, e.g. `FILE`. */
  readonly synopsis: string;
  readonly meaning: string;
  readonly run: (argv: readonly string[], shell: Shell) => Promise<ExitCode>;
}

/** Invalid command line. `run` prints the message and returns `EXIT.usage`. */
export class UsageError extends Error {}
