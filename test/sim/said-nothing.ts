/** Checks claims of absence: none before the process has heard from a source that can know. */
import { authorityOf, isGlob, isOldAuthority } from './names.js';
import { Violation, type Oracle } from './oracle.js';

const UNAVAILABLE = 14;

/** The error of a missing name (TP3). */
export interface ToldError {
  readonly name: string;
  readonly code: number;
}

/**
 * @param told globs that the client knows to be empty; for a wildcard of old-style names a response
 * without resources says so.
 * @throws Violation if a wildcard or glob is reported UNAVAILABLE: its client would start without
 * it.
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
    throw new Violation('19', `${name} is reported as unavailable`);
  }
}

/** @throws Violation if a process reports names as absent and cannot know that. */
export function checkKnown(oracle: Oracle, process: string, names: Iterable<string>): void {
  for (const name of names) {
    if (oracle.mayKnow(process, name)) continue;
    throw new Violation('19', `${name} is reported absent by a process that cannot know`);
  }
}
