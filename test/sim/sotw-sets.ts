/** Half a collection would end a client's wait for its first listeners or clusters (GRPC 7). */
import { globOf, isGlob } from './names.js';
import { Violation, type Oracle } from './oracle.js';

/** What a client subscribes of a type, and has received. */
interface Asking {
  readonly subscribed: ReadonlySet<string>;
  readonly asked: ReadonlyMap<string, { readonly request: number }>;
  /** Names received on this stream. */
  readonly seen: ReadonlySet<string>;
  /** Globs whose members came. */
  readonly begun: Set<string>;
}

/** @throws Violation if the first members of a glob do not include all that existed all along. */
export function checkFirstMembers(
  oracle: Oracle,
  { subscribed, asked, seen, begun }: Asking,
  arrived: ReadonlyMap<string, unknown>,
  readRequests: number,
): void {
  for (const glob of begun) if (!subscribed.has(glob)) begun.delete(glob);
  for (const name of arrived.keys()) {
    const glob = globOf(name);
    if (begun.has(glob) || subscribed.has(name) || seen.has(name)) continue;
    if ((asked.get(glob)?.request ?? Infinity) > readRequests || !isGlob(glob)) continue;
    begun.add(glob);
    const missing = oracle
      .members(glob)
      .find((one) => !arrived.has(one) && oracle.wasAlwaysThere(one));
    if (missing !== undefined) {
      throw new Violation('19', `${missing} is left out of the first set with ${name}`);
    }
  }
}
