/**
 * Converts on another thread what cannot be split and would keep the event loop: a large resource between its bytes and
 * JSON (150 ms for 1 MB, and 300 without secrets), and the resources of a file (800 ms for 1 MB of YAML). The thread starts
 * with the first task, and ends when it has had nothing to do for a minute.
 */
import { Worker } from 'node:worker_threads';
import type { FileResource } from '../config/file-resource.js';
import type { Converted } from '../protos/rest-client-json.js';
import type { ResourceFromJson } from '../protos/rest-source-json.js';
import type { ParsedText } from './core/sources/good-files.js';

/** A file of resources. */
export interface FileTask {
  readonly path: string;
  readonly text: string;
}

/** A resource that an operator may see, so without secrets. */
export interface ShowTask {
  readonly typeUrl: string;
  readonly body: Uint8Array;
  readonly as: 'json' | 'body';
}

/** An Any, the JSON of a resource, a file, or a resource to show. */
export type Task = Uint8Array | string | FileTask | ShowTask;

type Result = Converted<Uint8Array> | Converted<ResourceFromJson> | Converted<ParsedText>;

type Take = (result: Result, isMore: boolean) => void;

interface Waiting {
  readonly task: Task;
  readonly take: Take;
}

/** A result, or a part of it. */
export interface Message {
  readonly result: Result;
  readonly isMore: boolean;
}

/** Asks the thread for the next piece of a file. */
export const NEXT_PIECE = null;

const WORKER = new URL('./conversion-worker.js', import.meta.url);
/** YAML takes some 100 times its size while it is read. */
const MAX_HEAP_MIB = 2_048;
const IDLE_MS = 60_000;

export class ConversionThread {
  readonly #script: URL;
  readonly #idleMs: number;
  #worker: Worker | undefined;
  /** In the order in which the thread converts them. */
  readonly #waiting: Waiting[] = [];
  #idleTimer: NodeJS.Timeout | undefined;

  /** The parameters are for tests. */
  constructor(script = WORKER, idleMs = IDLE_MS) {
    this.#script = script;
    this.#idleMs = idleMs;
  }

  /** The thread runs. */
  get isStarted(): boolean {
    return this.#worker !== undefined;
  }

  /**
   * @param bytes an Any
   * @param onConverted called once, in a later turn, with its JSON; must not throw
   */
  toJson(bytes: Uint8Array, onConverted: (json: Converted<Uint8Array>) => void): void {
    // A copy: the thread would get all of the memory that these bytes are a part of.
    this.#ask(Uint8Array.from(bytes), onConverted as Take);
  }

  /** @param onConverted as for `toJson`, with the resource */
  fromJson(text: string, onConverted: (resource: Converted<ResourceFromJson>) => void): void {
    this.#ask(text, onConverted as Take);
  }

  /**
   * @param onShown as for `toJson`, with the resource without secrets: its JSON, as `redactedJson` makes it, or the bytes
   * of its message. An error: it cannot be read, or a text that stands for a secret does not fit into its field
   */
  show(task: ShowTask, onShown: (shown: Converted<Uint8Array>) => void): void {
    this.#ask({ ...task, body: Uint8Array.from(task.body) }, onShown as Take);
  }

  /** @param onParsed as for `toJson`, with its resources, as `parseResourceFile` finds them, or its problems */
  parseFile(file: FileTask, onParsed: (parsed: ParsedText) => void): void {
    const resources: FileResource[] = [];
    const take = (result: Converted<ParsedText>, isMore: boolean): void => {
      if (result.ok) resources.push(...result.value.resources);
      if (isMore) return;
      const problems = result.ok ? [] : [`${file.path}: cannot be read: ${result.reason}`];
      onParsed(result.ok ? { ...result.value, resources } : { ok: false, problems, resources: [] });
    };
    this.#ask(file, take as Take);
  }

  /** What is still to be converted is dropped. */
  end(): void {
    const worker = this.#worker;
    this.#worker = undefined;
    this.#waiting.length = 0;
    clearTimeout(this.#idleTimer);
    void worker?.terminate();
  }

  #ask(task: Task, take: Take): void {
    clearTimeout(this.#idleTimer);
    let worker: Worker;
    try {
      worker = this.#worker ??= this.#start();
    } catch (error) {
      // The system has no room for a thread. Nothing waits yet, so no task gets the result of another.
      const reason = `the thread that converts it cannot start: ${(error as Error).message}`;
      setImmediate(take, { ok: false, reason }, false);
      return;
    }
    this.#waiting.push({ task, take });
    worker.ref();
    worker.postMessage(task);
  }

  #start(): Worker {
    const worker = new Worker(this.#script, {
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
      // Options of the main thread, such as a debugger, are not for this one.
      execArgv: [],
    });
    worker.on('message', ({ result, isMore }: Message) => {
      // A thread that was ended may have sent this before.
      if (this.#worker !== worker) return;
      const first = isMore ? this.#waiting[0] : this.#waiting.shift();
      first?.take(result, isMore);
      // In the next turn: this one goes on with all messages that are there.
      if (isMore) {
        setImmediate(() => {
          worker.postMessage(NEXT_PIECE);
        });
      }
      if (this.#waiting.length === 0) this.#endWhenIdle(worker);
    });
    const fail = (why: string): void => {
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      const reason = `the thread that converts it ended: ${why}`;
      const [first, ...others] = this.#waiting.splice(0);
      first?.take({ ok: false, reason }, false);
      // They are not to blame: another thread converts them.
      for (const { task, take } of others) this.#ask(task, take);
    };
    // Such as no memory left.
    worker.on('error', (error) => {
      fail(error.message);
    });
    worker.on('exit', (code) => {
      fail(`exit code ${code}`);
    });
    return worker;
  }

  #endWhenIdle(worker: Worker): void {
    worker.unref();
    this.#idleTimer = setTimeout(() => {
      this.#worker = undefined;
      void worker.terminate();
    }, this.#idleMs).unref();
  }
}

/** One thread for the resources of all sources and clients: more would take the core of the event loop. */
export const conversions = new ConversionThread();

/** One for the files of all directories: no resource is to wait for a large file, which takes seconds. */
export const fileConversions = new ConversionThread();
