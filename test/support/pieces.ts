/** A server that sends a collection in several responses, and how a watcher sees that. */
import type { Test } from 'tap';
import { pair } from './authority-pair.js';
import { THING, type FederationDriver, type RecordingWatcher } from './federation-driver.js';

let nonces = 0;

/** One response of a server: a part of a collection. */
export function piece(driver: FederationDriver, source: string, ...names: readonly string[]): void {
  const resources = names.map((name) => ({ name, version: '1', body: Buffer.from('1') }));
  driver.send(source, { typeUrl: THING, nonce: `piece ${nonces++}`, resources });
}

/** `cloud`, whose server does not answer these globs by itself. */
export function silent(...globs: readonly string[]): FederationDriver {
  const driver = pair({}, {});
  for (const one of globs) driver.server('c').stalled.add(one);
  return driver;
}

export const completions = (watcher: RecordingWatcher): number =>
  watcher.told.filter((line) => line.startsWith('complete')).length;

/** Advances the clock; the collection becomes complete at the end, and not 1 ms earlier. */
export function getsCompleteAfter(
  t: Test,
  driver: FederationDriver,
  watcher: RecordingWatcher,
  ms: number,
): void {
  driver.advance(ms - 1);
  t.equal(completions(watcher), 0, 'not before');
  driver.advance(1);
  t.equal(completions(watcher), 1, 'and then once');
}
