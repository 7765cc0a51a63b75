import { Child, GENERATOR_CORE } from './child.js';
import { peerBinary } from './paths.js';

/** A command; the same as `command` in benchmarks/peers/cmd/loadgen/main.go. */
export type Command =
  | {
      readonly op: 'connect';
      readonly target: string;
      readonly clients: number;
      readonly connections?: number;
      readonly wildcard?: string;
      readonly authority: string;
      readonly members?: number;
      readonly shared?: number;
      readonly own?: number;
      readonly oldStyle?: boolean;
      readonly sotw?: boolean;
      readonly resume?: boolean;
      readonly keepVersions?: boolean;
      readonly fixedWindow?: boolean;
      readonly oneByOne?: boolean;
      readonly timeoutMs: number;
    }
  | {
      readonly op: 'changes';
      readonly control: string;
      readonly origin: string;
      readonly count: number;
      readonly span: number;
      readonly budgetMs: number;
      readonly gapMs?: number;
      readonly timeoutMs: number;
    }
  | {
      readonly op: 'flood';
      readonly control: string;
      readonly origin: string;
      readonly count: number;
      readonly span: number;
      readonly perSecond: number;
      readonly timeoutMs: number;
    }
  | {
      readonly op: 'edit';
      readonly control: string;
      readonly origin: string;
      readonly count: number;
      readonly span: number;
    }
  | { readonly op: 'pause'; readonly count: number }
  | { readonly op: 'unpause'; readonly timeoutMs: number }
  | {
      readonly op: 'cut';
      readonly pid: number;
      readonly origin: string;
      readonly timeoutMs: number;
    }
  | { readonly op: 'disconnect' };

export interface Quantiles {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  readonly count: number;
}

/** The result of a command; counts are totals of all clients since the last command. */
export interface Answer {
  readonly ok: boolean;
  readonly error?: string;
  readonly exact: number;
  readonly clients: number;
  readonly messages: number;
  readonly resources: number;
  readonly removed: number;
  readonly bytes: number;
  readonly elapsedMs: number;
  readonly changes: number;
  readonly deliveries: number;
  readonly delivery?: Quantiles;
  readonly ack?: Quantiles;
  readonly takenPerSecond: number;
  readonly convergedMs: number;
}

/** The clients, in a process of their own. */
export class LoadGenerator {
  readonly #child = new Child(peerBinary('loadgen'), [], GENERATOR_CORE);

  /** Throws if the command fails or exceeds its time limit. */
  async run(command: Command): Promise<Answer> {
    this.#child.writeLine(command);
    const answer = (await this.#child.nextLine()) as unknown as Answer;
    if (!answer.ok) throw new Error(`${command.op}: ${answer.error ?? 'failed'}`);
    return answer;
  }

  stop(): Promise<void> {
    return this.#child.stop();
  }
}
