import type { Test } from 'tap';

/** What has started, once it has; the test's teardown stops it. */
export async function stoppedWith<S extends { stop(): Promise<unknown> }>(
  t: Test,
  starting: Promise<S>,
): Promise<S> {
  const started = await starting;
  t.teardown(() => started.stop());
  return started;
}
