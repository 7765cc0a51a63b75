import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { pause, within } from '../../support/until.js';

export interface ChildSpec {
  /** For messages and file names. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** Whether it is a Node process that answers messages: {@link Child.ask}. */
  readonly answers?: boolean;
  /** See {@link scratchDirectory}; its files `stdout.log` and `stderr.log` are overwritten. */
  readonly directory: string;
}

const stopTimeoutMs = 5_000;
const shownLogBytes = 4_000;

const running = new Set<ChildProcess>();
// A test that timed out, or threw, tears nothing down.
process.on('exit', () => {
  for (const each of running) each.kill('SIGKILL');
});

/** A folder for the files of one child. It is kept when `KEEP_PEER_LOGS=true`. */
export function scratchDirectory(name: string): Promise<string> {
  return mkdtemp(join(tmpdir(), `tributary-${name}-`));
}

export async function removeScratch(directory: string): Promise<void> {
  if (process.env['KEEP_PEER_LOGS'] === 'true') return;
  await rm(directory, { recursive: true, force: true });
}

/**
 * One child process with its output on disk. Its standard input stays open until this process ends.
 */
export class Child {
  readonly #spec: ChildSpec;
  readonly #process: ChildProcess;
  readonly #exit: Promise<string>;
  #exited: string | undefined;

  constructor(spec: ChildSpec) {
    this.#spec = spec;
    this.#process = spawn(spec.command, spec.args, {
      stdio: ['pipe', 'pipe', 'pipe', ...(spec.answers === true ? (['ipc'] as const) : [])],
      env: { ...process.env, ...spec.environment },
    });
    running.add(this.#process);
    this.#process.stdout?.pipe(createWriteStream(join(spec.directory, 'stdout.log')));
    this.#process.stderr?.pipe(createWriteStream(join(spec.directory, 'stderr.log')));
    this.#process.stdin?.on('error', () => undefined);
    this.#exit = new Promise((resolve) => {
      const settle = (how: string): void => {
        running.delete(this.#process);
        this.#exited ??= how;
        resolve(this.#exited);
      };
      this.#process.on('error', (error) => {
        settle(error.message);
      });
      this.#process.on('exit', (code, signal) => {
        settle(signal === null ? `exit code ${code ?? 'unknown'}` : signal);
      });
    });
  }

  /** How it ended, or `undefined` while it runs. */
  get exited(): string | undefined {
    return this.#exited;
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** The last part of its output. */
  logs(): string {
    const tail = (file: string): string => {
      try {
        return readFileSync(join(this.#spec.directory, file), 'utf8').slice(-shownLogBytes);
      } catch {
        return '';
      }
    };
    return `--- ${this.#spec.name} stdout\n${tail('stdout.log')}\n--- stderr\n${tail('stderr.log')}`;
  }

  /**
   * The first line on stdout for which `pick` returns a value.
   *
   * @throws Error with the logs, when the child ends first or `timeoutMs` pass.
   */
  async line<T>(pick: (line: string) => T | undefined, timeoutMs = 20_000): Promise<T> {
    const { stdout } = this.#process;
    if (stdout === null) throw new Error('the child has no stdout');
    const lines = createInterface({ input: stdout });
    const found = new Promise<T>((resolve) => {
      lines.on('line', (line) => {
        const picked = pick(line);
        if (picked !== undefined) resolve(picked);
      });
    });
    try {
      return await this.ready(found, timeoutMs);
    } finally {
      lines.close();
      // readline paused its input; the log still needs it.
      stdout.resume();
    }
  }

  /** Calls `take` with each line on stdout, while the child runs. */
  eachLine(take: (line: string) => void): void {
    const { stdout } = this.#process;
    if (stdout !== null) createInterface({ input: stdout }).on('line', take);
  }

  /** Sends a message to the child; its next message is the answer. One at a time. */
  async ask(question: string, timeoutMs = 20_000): Promise<unknown> {
    const answer = once(this.#process, 'message') as Promise<[unknown]>;
    this.#process.send(question);
    const [message] = await this.ready(answer, timeoutMs);
    return message;
  }

  /**
   * Resolves like `becoming`.
   *
   * @throws Error with the logs, when the child ends first or `timeoutMs` pass.
   */
  async ready<T>(becoming: Promise<T>, timeoutMs = 20_000): Promise<T> {
    const ended = this.#exit.then(async (how): Promise<never> => {
      // Its last output may still be on its way to the file.
      await pause(100);
      throw new Error(`${this.#spec.name} ended before it was ready: ${how}\n${this.logs()}`);
    });
    ended.catch(() => undefined);
    try {
      return await within(
        `${this.#spec.name} is ready`,
        timeoutMs,
        Promise.race([becoming, ended]),
      );
    } catch (error) {
      if (this.#exited === undefined && error instanceof Error) {
        error.message += `\n${this.logs()}`;
      }
      throw error;
    }
  }

  /** Sends SIGTERM, then SIGKILL if that is not enough. */
  async stop(): Promise<void> {
    if (this.#exited !== undefined) return;
    this.#process.kill('SIGTERM');
    try {
      await within(`${this.#spec.name} stops`, stopTimeoutMs, this.#exit);
    } catch {
      await this.kill();
    }
  }

  /** Sends SIGKILL. */
  async kill(): Promise<void> {
    if (this.#exited !== undefined) return;
    this.#process.kill('SIGKILL');
    await once(this.#process, 'exit');
  }

  /** SIGSTOP and SIGCONT: alive, connected and unresponsive. */
  signal(name: NodeJS.Signals): void {
    this.#process.kill(name);
  }

  freeze(): void {
    this.#process.kill('SIGSTOP');
  }

  thaw(): void {
    this.#process.kill('SIGCONT');
  }
}

/** Runs `work`; if it fails, the last output of the processes becomes part of the error. */
export async function tellingLogs<T>(
  processes: readonly { logs(): string }[],
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Error) {
      error.message = [error.message, ...processes.map((each) => each.logs())].join('\n');
    }
    throw error;
  }
}
