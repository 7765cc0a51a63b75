/** The state of a state-of-the-world client for one type. */
import type { Held } from './model-client.js';
import { globOf } from './names.js';
import { hasClusterMark, type Resume } from './resumes.js';
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
  /** Names in the first request of the type on this stream. */
  readonly named: Set<string>;
  /**
   * What its version claimed at the start of this stream; `unknown`: a version that no instance
   * knows.
   */
  claims: 'all' | 'unknown' | 'nothing';
  version: string;
  /** The version with which this stream started says that the client has clusters. */
  toldOfClusters: boolean;
  /** Of the newest acknowledged response, and of the one before. */
  nonce: string;
  lastNonce: string;
  nonceOrder: number;
  /** The newest accepted response. */
  acceptedOrder: number;
}

/** A version that no instance gave. */
const ELSEWHERE = '1.2';
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
  toldOfClusters: false,
  nonce: '',
  lastNonce: '',
  nonceOrder: 0,
  acceptedOrder: 0,
});

/** Prepares the state for a new stream. */
export function startStream(state: Sotw, resume: Resume): void {
  if (resume === 'none') state.held.clear();
  if (resume === 'none' || resume === 'unsaid') state.version = '';
  else if (resume === 'foreign' && state.version !== '') state.version = ELSEWHERE;
  const isForeign = state.version === ELSEWHERE;
  state.claims = state.version === '' ? 'nothing' : isForeign ? 'unknown' : 'all';
  state.toldOfClusters = hasClusterMark(state.version);
  if (state.version === '' || resume === 'foreign') {
    state.untold.clear();
    state.left.clear();
    state.covered = new Set();
  }
  state.offered.clear();
  for (const [name, one] of state.held) state.offered.set(name, one);
  state.nonce = '';
  state.lastNonce = '';
  state.nonceOrder = 0;
  state.acceptedOrder = 0;
  state.asked.clear();
  state.seen.clear();
  for (const name of state.held.keys()) state.seen.add(name);
  state.begun.clear();
  for (const name of state.left.keys()) state.left.set(name, BEFORE_STREAM);
  state.named.clear();
}

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
