/** Bounded waits for states that send no notification (of another process). */

export interface UntilOptions {
  readonly timeoutMs?: number;
  readonly everyMs?: number;
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/**
 * Calls `probe` repeatedly until it returns a value.
 *
 * @param what Completes the sentence "waited in vain until …".
 * @param probe Any value but `undefined` and `false` ends the wait. An exception counts as "not
 *   yet", and is the cause of the final error.
 * @throws Error when there was no value within `timeoutMs` (default 20,000).
 */
export async function until<T>(
  what: string,
  probe: () => T | undefined | false | Promise<T | undefined | false>,
  { timeoutMs = 20_000, everyMs = 25 }: UntilOptions = {},
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  let cause: unknown;
  while (true) {
    try {
      const got = await probe();
      cause = undefined;
      if (got !== undefined && got !== false) return got;
    } catch (error) {
      cause = error;
    }
    if (performance.now() >= deadline) {
      throw new Error(`waited ${timeoutMs} ms in vain until ${what}`, { cause });
    }
    await pause(everyMs);
  }
}

/**
 * Resolves like `promise`.
 *
 * @throws Error after `timeoutMs`.
 */
export async function within<T>(what: string, timeoutMs: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`waited ${timeoutMs} ms in vain until ${what}`));
    }, timeoutMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
