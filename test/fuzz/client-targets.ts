/**
 * Client messages for sessions of both protocol variants over one cache. Two correct clients share
 * the cache: whatever the fuzzed client does must not reach them, and they must get every change.
 */
import assert from 'node:assert/strict';
import { DeltaSession } from '../../gateway/core/delta/delta-session.js';
import {
  clientScopeOf,
  readGroupedNode,
  type GroupedNode,
} from '../../gateway/core/session/client-scope.js';
import { SotwSession } from '../../gateway/core/sotw/sotw-session.js';
import type { StreamSession } from '../../gateway/core/session/stream-session.js';
import type { OldStyleSpec } from '../../config/model.js';
import { wholeOf } from '../../protos/discovery-fields.js';
import { decodeDeltaRequest, decodeDeltaResponse } from '../../protos/delta-codec.js';
import type { Decoded, DeltaRequest, SotwRequest } from '../../protos/discovery.js';
import { decodeSotwRequest } from '../../protos/sotw-codec.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { cds, eds } from '../support/mesh-names.js';
import { Instance, type ConnectedClient } from '../support/session-driver.js';
import { SotwClient } from '../support/sotw-driver.js';
import { DELTA_REQUESTS, SOTW_REQUESTS } from './envelope-seeds.js';
import type { Subject, Target } from './target.js';
import { mutateWire } from './wire-mutator.js';
import { ALL_WORD_BYTES, bytesOf, name, THING } from './words.js';

interface Flavour {
  readonly decode: (bytes: Uint8Array, most: number) => Decoded<DeltaRequest | SotwRequest>;
  readonly open: (options: ConstructorParameters<typeof DeltaSession>[0]) => StreamSession<never>;
}

const DELTA: Flavour = {
  decode: decodeDeltaRequest,
  open: (options) => new DeltaSession(options),
};
const SOTW: Flavour = {
  decode: decodeSotwRequest,
  open: (options) =>
    new SotwSession({ ...options, placeholderAfterMs: 5_000, unanswerableAfterMs: 12_000 }),
};

const OLD_STYLE: OldStyleSpec = { differBy: ['id', 'cluster', 'metadata.group'], servedBy: [] };
const MAX_NAMES = 100;
const MAX_NAMES_PER_REQUEST = 60;
/** More than any session can have to send. */
const MAX_POLLS = 2_000;

class World implements Subject {
  readonly #flavour: Flavour;
  readonly #instance = new Instance({
    maxNames: MAX_NAMES,
    chunkBytes: 500,
    tombstonesPerCollection: 20,
  });
  readonly #delta: ConnectedClient;
  readonly #sotw: SotwClient;
  #session: StreamSession<never>;
  #node: GroupedNode | undefined;
  #content = 'content';
  #changes = 0;
  #nonces = new Set<string>();

  constructor(flavour: Flavour) {
    this.#flavour = flavour;
    const { directory } = this.#instance;
    for (const id of ['1', '2', 'dir/4']) directory.put(THING, name('a', id), id);
    directory.put(THING, name('b', '1'), 'of b');
    directory.put(TYPE_URL.cluster, cds('c', 'a'), 'cluster', eds('e', 'a'));
    directory.put(TYPE_URL.clusterLoadAssignment, eds('e', 'a'), 'endpoints');
    this.#delta = this.#instance.connect();
    this.#delta.subscribe(THING, name('a', '1'), name('a', '*'));
    this.#delta.subscribe(TYPE_URL.cluster, cds('*', 'a'));
    this.#delta.subscribe(TYPE_URL.clusterLoadAssignment, eds('e', 'a'));
    this.#sotw = new SotwClient(this.#instance);
    this.#sotw.ask(TYPE_URL.cluster, cds('c', 'a'));
    this.#sotw.ask(THING, name('a', '1'), name('b', '1'));
    this.#session = this.#open();
    this.#answer();
    this.#publish();
  }

  #open(): StreamSession<never> {
    const { settings, cache } = this.#instance;
    this.#node = undefined;
    this.#nonces = new Set();
    return this.#flavour.open({
      ...settings,
      cache,
      scopeOf: () =>
        clientScopeOf(this.#node ?? readGroupedNode(undefined, OLD_STYLE), OLD_STYLE, {
          maxNodeGroups: 10,
          scopeCount: 0,
          hasScope: () => false,
        }),
      onReady: () => undefined,
    });
  }

  #reopen(): void {
    this.#session.close(this.#instance.nowMs);
    this.#session = this.#open();
  }

  /** Like the shell. */
  take(message: Uint8Array, dice: number): boolean {
    if (this.#session.handleAck?.(message, this.#instance.nowMs) === true) {
      this.#session.takeEvents();
      return true;
    }
    const decoded = this.#flavour.decode(message, MAX_NAMES_PER_REQUEST);
    let accepted = false;
    if (decoded.ok) {
      this.#node ??= readGroupedNode(decoded.message.node, OLD_STYLE);
      const status = this.#session.handleRequest(decoded.message as never, this.#instance.nowMs);
      accepted = status === undefined;
      if (accepted)
        assert.ok(this.#session.nameCount <= MAX_NAMES, 'the session keeps the limit of names');
      this.#session.takeEvents();
    }
    if (accepted) this.#happen(dice);
    else this.#reopen();
    assert.equal(this.#delta.poll(), undefined, 'a client without subscriptions gets no response');
    assert.equal(this.#sotw.poll(), undefined, 'a client without subscriptions gets no response');
    return accepted;
  }

  #happen(dice: number): void {
    if (dice % 4 === 0) this.#answer();
    if (dice % 8 === 1) this.#instance.advance(1_000);
    if (dice % 32 === 3) this.#instance.advance(20_000);
    if (dice % 64 === 7) this.#publish();
    if (dice % 64 === 11) this.#keepWaiting();
    if (dice % 8 !== 2) this.#read();
    const isDue = this.#session.endStatus(this.#instance.nowMs) !== undefined;
    if (isDue || dice % 64 === 9) this.#reopen();
  }

  #answer(): void {
    this.#instance.directory.answer();
    this.#delta.settle();
    this.#sotw.settle();
  }

  /**
   * Reads all pending responses of the session: they must end, and a client must be able to read
   * them.
   */
  #read(): void {
    for (let polls = 0; ; polls++) {
      assert.ok(polls < MAX_POLLS, 'the responses come to an end');
      const sent = this.#session.takeResponse(this.#instance.nowMs);
      if (!sent) return;
      if (this.#flavour === SOTW) continue;
      const response = decodeDeltaResponse(wholeOf(sent.chunks), Infinity);
      assert.ok(response.ok, 'a client can decode the response');
      const { nonce } = response.message;
      assert.ok(nonce !== '' && !this.#nonces.has(nonce), 'nonces are unique (invariant 5)');
      this.#nonces.add(nonce);
    }
  }

  /** Gives the correct clients a response that they do not acknowledge yet. */
  #keepWaiting(): void {
    // Nothing may wait behind an unacknowledged response: it would be sent after its deadline.
    this.#delta.settle();
    this.#sotw.settle();
    this.#instance.directory.put(THING, name('a', '1'), `unacknowledged ${++this.#changes}`);
    this.#delta.pollAll();
    this.#sotw.pollAll();
  }

  /** A change must reach its subscribers. */
  #publish(): void {
    this.#content = `content ${++this.#changes}`;
    this.#instance.directory.put(THING, name('a', '1'), this.#content);
    this.#delta.settle();
    this.#sotw.settle();
    const ofDelta = this.#delta.model.type(THING).held.get(name('a', '1'))?.content;
    assert.equal(ofDelta, this.#content, 'the correct delta client gets every change');
    const ofSotw = this.#sotw.type(THING).accepted.get(name('a', '1'));
    assert.equal(ofSotw, this.#content, 'the correct state-of-the-world client gets every change');
  }

  end(): void {
    this.#session.close(this.#instance.nowMs);
    this.#publish();
    assert.equal(this.#delta.model.type(THING).held.size, 2);
    this.#delta.disconnect();
    this.#sotw.disconnect();
    this.#instance.advance(this.#instance.settings.unsubscribedLingerMs);
    assert.deepEqual(this.#instance.directory.watched, [], 'no watch stays without a subscriber');
  }
}

const words = [
  ...ALL_WORD_BYTES,
  bytesOf(cds('c', 'a')),
  bytesOf(eds('e', 'a')),
  bytesOf(cds('*', 'a')),
];

const session = (targetName: string, flavour: Flavour, seeds: readonly Uint8Array[]): Target => ({
  name: targetName,
  messages: 1_000_000,
  perCase: 400,
  valid: 0.25,
  cost: 30,
  prepare: () => ({
    seeds,
    mutate: (random, known) => mutateWire(random, { seeds: known, words }, 0.03),
    open: () => new World(flavour),
  }),
});

export const CLIENT_TARGETS: readonly Target[] = [
  session('delta-session', DELTA, DELTA_REQUESTS),
  session('sotw-session', SOTW, SOTW_REQUESTS),
];
