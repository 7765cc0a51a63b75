/** Subscribes to one name or glob for a moment, as a client would, to show it in the admin API. */
import type { ResourceName } from '../../protos/resource-name.js';
import type { GlobEntry, NameEntry } from '../core/cache/entries.js';
import type { ResourceCache } from '../core/cache/resource-cache.js';
import { clock } from '../clock.js';

/**
 * Resolves when the state of the name is known, present or not, or after `timeoutMs`. The entry then
 * stays in the cache like that of a client that has unsubscribed.
 */
export async function lookUp(
  cache: ResourceCache,
  typeUrl: string,
  name: ResourceName,
  timeoutMs: number,
): Promise<void> {
  let settle: () => void = () => undefined;
  const answered = new Promise<void>((resolve) => (settle = resolve));
  const timer = setTimeout(settle, timeoutMs);
  const settleIf = (isAnswered: boolean): void => {
    if (isAnswered) settle();
  };
  if (name.isGlob) {
    const check = (): void => {
      settleIf(isGlobAnswered(entry));
    };
    const subscriber = { handleGlobChanged: check };
    const entry = cache.subscribeGlob(typeUrl, name, subscriber);
    check();
    await answered;
    cache.unsubscribeGlob(entry, subscriber, 'unsubscribed', clock());
  } else {
    const check = (): void => {
      settleIf(isNameAnswered(entry));
    };
    const subscriber = { handleNameChanged: check };
    const entry = cache.subscribeName(typeUrl, name, subscriber);
    check();
    await answered;
    cache.unsubscribeName(entry, subscriber, 'unsubscribed', clock());
  }
  clearTimeout(timer);
}

const isNameAnswered = ({ state }: NameEntry): boolean => state.kind !== 'waiting';
const isGlobAnswered = ({ collection, error }: GlobEntry): boolean =>
  collection.complete || error !== undefined;
