/**
 * Converts large resources between their bytes and JSON on another thread: one cannot be split, and takes 150 ms for
 * 1 MB. The thread starts with the first one, and ends when it has had nothing to do for a minute.
 */
import { Worker } from 'node:worker_threads';
import type { Converted } from '../protos/discovery-json.js';
import type { ResourceFromJson } from '../protos/rest-source-json.js';

/** An Any, or the JSON of a resource. */
export type Task = Uint8Array | string;

type Result = Converted<Uint8Array> | Converted<ResourceFromJson>;

const WORKER = new URL('./conversion-worker.js', import.meta.url);
const MAX_HEAP_MIB = 512;
const IDLE_MS = 60_000;

export class ConversionThread {
  readonly #script: URL;
  readonly #idleMs: number;
  #worker: Worker | undefined;
  /** In the order of their tasks. */
  readonly #waiting: ((result: Result) => void)[] = [];
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
    // A copy, since the bytes may be a part of others. The thread takes it over.
    const copy = Uint8Array.from(bytes);
    this.#ask(copy, onConverted as (result: Result) => void, [copy.buffer]);
  }

  /** @param onConverted as for `toJson`, with the resource */
  fromJson(text: string, onConverted: (resource: Converted<ResourceFromJson>) => void): void {
    this.#ask(text, onConverted as (result: Result) => void, []);
  }

  #ask(task: Task, onConverted: (result: Result) => void, transfer: ArrayBuffer[]): void {
    clearTimeout(this.#idleTimer);
    this.#waiting.push(onConverted);
    this.#worker ??= this.#start();
    this.#worker.ref();
    this.#worker.postMessage(task, transfer);
  }

  #start(): Worker {
    const worker = new Worker(this.#script, {
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
      // Options of the main thread, such as a debugger, are not for this one.
      execArgv: [],
    });
    worker.on('message', (result: Result) => {
      this.#waiting.shift()?.(result);
      if (this.#waiting.length === 0) this.#endWhenIdle(worker);
    });
    const fail = (why: string): void => {
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      const reason = `the thread that converts large resources ended: ${why}`;
      for (const tell of this.#waiting.splice(0)) tell({ ok: false, reason });
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

/** One thread for the process: a second one would take the core of the event loop. */
export const conversions = new ConversionThread();
