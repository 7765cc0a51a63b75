/** What a state-of-the-world client knows of one type. */
import type { Held } from './model-client.js';
import { globOf } from './names.js';
import { MembersUntold } from './sotw-members.js';

/** Of which of its streams. */
export interface SotwHeld extends Held {
  readonly stream: number;
}

interface Asked {
  readonly request: number;
  readonly atMs: number;
}

export interface Sotw {
  readonly subscribed: Set<string>;
  /** By asked name, the request of this stream that brought it, and when. */
  readonly asked: Map<string, Asked>;
  /** What was sent, refused or not; and what it has by the version that it tells. */
  readonly offered: Map<string, SotwHeld>;
  readonly held: Map<string, SotwHeld>;
  /**
   * Names that came on this stream, of a whole set those of the last one; or may come of themselves,
   * whatever else covers them: those that it resumes with, or has just left.
   */
  readonly seen: Set<string>;
  /** Globs of which members came. */
  readonly begun: Set<string>;
  /** Dropped by the client, in which request, while its version still says that it has it. */
  readonly left: Map<string, number>;
  readonly untold: MembersUntold;
  /** What the first request of this stream named. */
  readonly named: Set<string>;
  /** What its version said at the beginning of this stream: nothing, or nothing that an instance knows. */
  claims: 'all' | 'unknown' | 'nothing';
  version: string;
  /** Of the newest response that was answered, and of the one before. */
  nonce: string;
  lastNonce: string;
  nonceOrder: number;
  /** The newest response that was accepted. */
  acceptedOrder: number;
}

export const newSotw = (): Sotw => ({
  subscribed: new Set(),
  asked: new Map(),
  offered: new Map(),
  held: new Map(),
  seen: new Set(),
  begun: new Set(),
  left: new Map(),
  untold: new MembersUntold(),
  named: new Set(),
  claims: 'nothing',
  version: '',
  nonce: '',
  lastNonce: '',
  nonceOrder: 0,
  acceptedOrder: 0,
});

export const wants = ({ subscribed }: Sotw, name: string): boolean =>
  subscribed.has(name) || subscribed.has(globOf(name));

/** Had the instance read that it is wanted, as it is wanted now, when it had read so many requests? */
export function owes({ asked }: Sotw, name: string, readRequests: number): boolean {
  const asName = asked.get(name)?.request ?? Infinity;
  const asMember = asked.get(globOf(name))?.request ?? Infinity;
  return Math.min(asName, asMember) <= readRequests;
}
