import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { availableParallelism } from 'node:os';

/** The server under test has this core to itself; every other process uses the other one. */
export const SERVER_CORE = 0;
export const GENERATOR_CORE = 1;

const canPin =
  availableParallelism() > 1 &&
  spawnSync('taskset', ['--version'], { stdio: 'ignore' }).status === 0;

/** Whether processes are pinned, for the report. */
export const pinning = canPin ? 'server on core 0, all else on core 1' : 'not pinned';

/** A child process that writes JSON lines. */
export class Child {
  readonly pid: number;
  readonly #process: ChildProcess;
  readonly #waiting: ((line: Record<string, unknown> | undefined) => void)[] = [];
  readonly #lines: Record<string, unknown>[] = [];
  #lastWords = '';
  #exited = false;

  constructor(command: string, args: readonly string[], core: number) {
    const [file, ...rest] = canPin
      ? ['taskset', '-c', String(core), command, ...args]
      : [command, ...args];
    this.#process = spawn(file, rest, { stdio: ['pipe', 'pipe', 'pipe'] });
    this.pid = this.#process.pid ?? -1;
    this.#process.on('error', (error) => (this.#lastWords += String(error)));
    this.#process.stdin!.on('error', () => undefined);
    this.#process.stderr!.on('data', (text: Buffer) => {
      this.#lastWords = (this.#lastWords + text.toString()).slice(-2_000);
    });
    createInterface({ input: this.#process.stdout! }).on('line', (text) => {
      this.#take(text);
    });
    this.#process.on('close', () => {
      this.#exited = true;
      for (const settle of this.#waiting.splice(0)) settle(undefined);
    });
  }

  #take(text: string): void {
    if (!text.startsWith('{')) return;
    const line = JSON.parse(text) as Record<string, unknown>;
    const settle = this.#waiting.shift();
    if (settle !== undefined) settle(line);
    else if (this.#lines.push(line) > 1_000) this.#lines.shift();
  }

  /** The next JSON line of its stdout. If it exits instead, throws the end of its stderr. */
  async nextLine(): Promise<Record<string, unknown>> {
    const early = this.#lines.shift();
    if (early !== undefined) return early;
    const line = this.#exited
      ? undefined
      : await new Promise<Record<string, unknown> | undefined>((settle) =>
          this.#waiting.push(settle),
        );
    if (line === undefined) throw new Error(this.obituary ?? 'process ended');
    return line;
  }

  async lineWithEvent(event: string): Promise<Record<string, unknown>> {
    while (true) {
      const line = await this.nextLine();
      if (line['event'] === event) return line;
    }
  }

  writeLine(value: unknown): void {
    this.#process.stdin!.write(`${JSON.stringify(value)}\n`);
  }

  /** How it exited, with the end of its stderr; `undefined` while it runs. */
  get obituary(): string | undefined {
    return this.#exited ? `process ended: ${this.#lastWords}` : undefined;
  }

  async stop(): Promise<void> {
    if (this.#exited) return;
    const closed = once(this.#process, 'close');
    this.#process.kill('SIGKILL');
    await closed;
  }
}
