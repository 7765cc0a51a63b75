/** Asks for one name or glob for a moment, as a client would, for people who want to look at it. */
import type { ResourceName } from '../../protos/resource-name.js';
import type { GlobEntry, NameEntry, ResourceCache } from '../core/cache/resource-cache.js';
import { clock } from '../clock.js';

/**
 * Resolves once the name is answered, whatever the answer, or after `timeoutMs`. What was fetched
 * lingers in the cache as if a client had left.
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
    cache.unsubscribeGlob(entry, subscriber, clock());
  } else {
    const check = (): void => {
      settleIf(isNameAnswered(entry));
    };
    const subscriber = { handleNameChanged: check };
    const entry = cache.subscribeName(typeUrl, name, subscriber);
    check();
    await answered;
    cache.unsubscribeName(entry, subscriber, clock());
  }
  clearTimeout(timer);
}

const isNameAnswered = ({ state }: NameEntry): boolean => state.kind !== 'waiting';
const isGlobAnswered = ({ collection, error }: GlobEntry): boolean =>
  collection.complete || error !== undefined;
