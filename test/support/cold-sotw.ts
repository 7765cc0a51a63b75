/** State-of-the-world clients at a process that has just started. */
import { Instance } from './session-driver.js';
import { said, SotwClient, type SotwSettings } from './sotw-driver.js';

export function setUp(settings: SotwSettings = {}) {
  const instance = new Instance();
  const client = new SotwClient(instance, settings);
  const saidAfter = (ms: number): readonly unknown[] => {
    instance.advance(ms);
    return client.settle().map(said);
  };
  return { instance, directory: instance.directory, cache: instance.cache, client, saidAfter };
}

/**
 * A client that held all of `contents` from an earlier process, and requests `asked` from a new
 * one.
 */
export function resumed(
  asked: ReadonlyMap<string, readonly string[]>,
  contents: readonly (readonly [typeUrl: string, name: string])[],
  settings: SotwSettings = {},
) {
  const before = new Instance();
  const { instance, client, directory, cache, saidAfter } = setUp(settings);
  for (const [typeUrl, text] of contents) before.directory.put(typeUrl, text, 'v1');
  client.reconnect(before);
  for (const [typeUrl, names] of asked) client.ask(typeUrl, ...names);
  before.directory.answer();
  client.settle();
  client.disconnect();
  client.reconnect(instance);
  return { instance, client, directory, cache, saidAfter };
}
