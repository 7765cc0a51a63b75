import type { Test } from 'tap';

/** Resolves with the started process; the teardown of the test stops it. */
export async function stoppedWith<S extends { stop(): Promise<unknown> }>(
  t: Test,
  starting: Promise<S>,
): Promise<S> {
  const started = await starting;
  t.teardown(() => started.stop());
  return started;
}
