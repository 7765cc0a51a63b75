/** What may be told of what is not there: nothing, as long as nobody who could know was heard. */
import { authorityOf, isGlob, isOldAuthority } from './names.js';
import { Violation, type Oracle } from './oracle.js';

const UNAVAILABLE = 14;

/** Why a name is not there (TP3). */
export interface ToldError {
  readonly name: string;
  readonly code: number;
}

/**
 * @param told globs of which the client was told that there is nothing in them; of wildcards of old-style
 *   names a response without anything says so.
 * @throws Violation where a wildcard or glob is told to be out of reach: its client would begin without it.
 */
export function checkErrors(
  oracle: Oracle,
  process: string,
  errors: readonly ToldError[],
  told: readonly string[],
): void {
  for (const { name, code } of errors) {
    if (code !== UNAVAILABLE || !isGlob(name) || told.includes(name)) continue;
    if (isOldAuthority(authorityOf(name)) && oracle.mayKnow(process, name)) continue;
    throw new Violation('19', `${name} is told to be unavailable`);
  }
}

/** @throws Violation where a process says that there is nothing of these, and cannot know it. */
export function checkKnown(oracle: Oracle, process: string, names: Iterable<string>): void {
  for (const name of names) {
    if (oracle.mayKnow(process, name)) continue;
    throw new Violation('19', `${name} is told absent, and nothing is known of it`);
  }
}
