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

export interface Flag {
  /** Without the dashes. */
  readonly name: string;
  /** One letter, without the dash. */
  readonly short?: string;
  /** What to write after it, e.g. `HOST:PORT`. Absent: the flag takes no value. */
  readonly value?: string;
  /** The only values that the flag takes. */
  readonly choices?: readonly string[];
  readonly meaning: string;
}

/** A required argument, e.g. `FILE`. `choices` are the only values that it takes. */
export interface Positional {
  readonly name: string;
  readonly choices?: readonly string[];
}

/** The command line after `readArguments` checked it. */
export interface Arguments {
  readonly positionals: readonly string[];
  readonly text: (flag: string) => string | undefined;
  readonly isSet: (flag: string) => boolean;
}

/** Help, errors and shell completion come from these fields. */
export interface Command {
  readonly name: string;
  readonly meaning: string;
  readonly positionals: readonly Positional[];
  readonly flags: readonly Flag[];
  readonly run: (given: Arguments, shell: Shell) => Promise<ExitCode>;
}

/** A command that reads its arguments itself, with a help of its own. */
export interface RawCommand extends Omit<Command, 'run'> {
  readonly runRaw: (argv: readonly string[], shell: Shell) => Promise<ExitCode>;
}

/** Invalid command line. `run` prints the message and returns `EXIT.usage`. */
export class UsageError extends Error {}

/** The flags by which every command finds the admin API; `adminTarget` reads them. */
export const ADMIN_FLAGS: readonly Flag[] = [
  {
    name: 'admin',
    value: 'HOST:PORT',
    meaning:
      'Admin address of the gateway. Default: 127.0.0.1:18900, or TRIBUTARY_ADMIN_HOST and _PORT.',
  },
  {
    name: 'admin-token-file',
    value: 'FILE',
    meaning: 'The token that the gateway requires. Default: TRIBUTARY_ADMIN_TOKEN_FILE.',
  },
  {
    name: 'admin-tls',
    meaning: 'Connects with TLS, as do --admin-ca, --admin-cert and --admin-key.',
  },
  {
    name: 'admin-ca',
    value: 'FILE',
    meaning: 'The CA of the gateway. Default: the roots of Node.js.',
  },
  { name: 'admin-cert', value: 'FILE', meaning: 'The client certificate.' },
  { name: 'admin-key', value: 'FILE', meaning: 'The key of the client certificate.' },
];
