import { Agent } from 'node:http';

import { httpRequest, type HttpAnswer } from '../../support/http.js';
import { within } from '../../support/until.js';

export interface TrafficFailure {
  /** Since the start of the traffic. */
  readonly atMs: number;
  readonly connection: 'kept' | 'new';
  readonly text: string;
}

export interface TrafficTotals {
  readonly requests: number;
  /** Successful responses by their body. */
  readonly answers: ReadonlyMap<string, number>;
  readonly failures: readonly TrafficFailure[];
}

export interface Traffic {
  totals(): TrafficTotals;
  /**
   * Milliseconds until the last `count` responses were all `answer`.
   *
   * @throws Error after `timeoutMs` (default 20,000).
   */
  untilOnly(answer: string, options?: { count?: number; timeoutMs?: number }): Promise<number>;
  /** Starts no new requests; resolves when the last one has its response. */
  stop(): Promise<TrafficTotals>;
}

interface Waiter {
  readonly answer: string;
  readonly count: number;
  readonly resolve: () => void;
}

/**
 * Sends two requests every `everyMs`: one over kept connections, one over a new one. Any status but
 * 200 is a failure; there are no retries. `url` may be a function that returns the URL of each
 * request.
 */
export function startTraffic(url: string | (() => string), everyMs = 10): Traffic {
  const began = performance.now();
  const kept = new Agent({ keepAlive: true });
  const answers = new Map<string, number>();
  const failures: TrafficFailure[] = [];
  const underway = new Set<Promise<void>>();
  let waiters: readonly Waiter[] = [];
  let streak = { answer: '', length: 0 };
  let requests = 0;

  function took(answer: HttpAnswer): void {
    const { body } = answer;
    answers.set(body, (answers.get(body) ?? 0) + 1);
    streak = { answer: body, length: streak.answer === body ? streak.length + 1 : 1 };
    const met = waiters.filter((each) => each.answer === body && streak.length >= each.count);
    waiters = waiters.filter((each) => !met.includes(each));
    for (const each of met) each.resolve();
  }

  async function ask(connection: 'kept' | 'new'): Promise<void> {
    const atMs = Math.round(performance.now() - began);
    requests += 1;
    try {
      const agent = connection === 'kept' ? kept : false;
      const target = typeof url === 'string' ? url : url();
      const answer = await httpRequest(target, { agent, timeoutMs: 5_000 });
      if (answer.status === 200) took(answer);
      else failures.push({ atMs, connection, text: `${answer.status} ${answer.body}` });
    } catch (error) {
      failures.push({ atMs, connection, text: String(error) });
    }
  }

  function start(connection: 'kept' | 'new'): void {
    const asking = ask(connection);
    underway.add(asking);
    void asking.finally(() => underway.delete(asking));
  }

  const timer = setInterval(() => {
    start('kept');
    start('new');
  }, everyMs);
  const totals = (): TrafficTotals => ({
    requests,
    answers: new Map(answers),
    failures: [...failures],
  });

  return {
    totals,
    async untilOnly(answer, { count = 50, timeoutMs = 20_000 } = {}) {
      const asked = performance.now();
      const met = new Promise<void>((resolve) => {
        waiters = [...waiters, { answer, count, resolve }];
      });
      await within(`${count} responses in a row are "${answer}"`, timeoutMs, met);
      return Math.round(performance.now() - asked);
    },
    async stop() {
      clearInterval(timer);
      await Promise.all(underway);
      kept.destroy();
      return totals();
    },
  };
}
