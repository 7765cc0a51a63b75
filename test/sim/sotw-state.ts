/** The state of a state-of-the-world client for one type. */
import type { Held } from './model-client.js';
import { globOf } from './names.js';
import { MembersUntold } from './sotw-members.js';

/** `stream`: the number of the client's stream that sent it. */
export interface SotwHeld extends Held {
  readonly stream: number;
}

interface Asked {
  readonly request: number;
  readonly atMs: number;
}

export interface Sotw {
  readonly subscribed: Set<string>;
  /** By requested name: the first request of this stream with it, and its time. */
  readonly asked: Map<string, Asked>;
  /**
   * `offered`: sent, whether accepted or refused. `held`: what the version claims that the client
   * sends.
   */
  readonly offered: Map<string, SotwHeld>;
  readonly held: Map<string, SotwHeld>;
  /**
   * Names that this stream sent (for whole sets: in the last response), and names that it may send
   * whatever else covers them: the resources that the client resumed with or has just unsubscribed.
   */
  readonly seen: Set<string>;
  /** Globs whose members came. */
  readonly begun: Set<string>;
  /** Names that the client dropped since its last accepted response, with the request. */
  readonly left: Map<string, number>;
  /** Names that its version covers; of the types that are sent in parts it may cover fewer. */
  covered: ReadonlySet<string>;
  readonly untold: MembersUntold;
  /** Names in the first request of this stream. */
  readonly named: Set<string>;
  /**
   * What its version claimed at the start of this stream; `unknown`: a version that no instance
   * knows.
   */
  claims: 'all' | 'unknown' | 'nothing';
  version: string;
  /** Of the newest acknowledged response, and of the one before. */
  nonce: string;
  lastNonce: string;
  nonceOrder: number;
  /** The newest accepted response. */
  acceptedOrder: number;
}

/** In `left`: the client dropped the name before its stream began. */
export const BEFORE_STREAM = 0;

export const newSotw = (): Sotw => ({
  subscribed: new Set(),
  asked: new Map(),
  offered: new Map(),
  held: new Map(),
  seen: new Set(),
  begun: new Set(),
  left: new Map(),
  covered: new Set(),
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

/**
 * Did the gateway know, after this many requests, that the client wants the name as it does now?
 */
export function owes({ asked }: Sotw, name: string, readRequests: number): boolean {
  const asName = asked.get(name)?.request ?? Infinity;
  const asMember = asked.get(globOf(name))?.request ?? Infinity;
  return Math.min(asName, asMember) <= readRequests;
}
