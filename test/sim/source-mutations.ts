/** Bugs to plant in the code for sources that speak state of the world. */
import type { Mutation } from './mutation.js';

const STREAM = 'authorities/core/sources/sotw-stream.ts';

const MOVES = 'test/unit/authorities/core/failover/moves.test.ts';

export const SOURCE_MUTATIONS: readonly Mutation[] = [
  {
    title: 'source: a partial set is taken for a whole one',
    file: STREAM,
    from: 'if (isWholeInSotw(typeUrl) && !isHeartbeat(response)) {',
    to: 'if (!isHeartbeat(response)) {',
  },
  {
    title: 'source: a heartbeat is taken for a whole set',
    file: STREAM,
    from: 'if (isWholeInSotw(typeUrl) && !isHeartbeat(response)) {',
    to: 'if (isWholeInSotw(typeUrl)) {',
  },
  {
    title: 'source: a whole set deletes nothing',
    file: STREAM,
    from: 'this.#contents.remove(typeUrl, name, isResync || this.#isLate(typeUrl, name, nowMs));',
    to: '',
  },
  {
    title: 'source: removals of a new stream pass no guard',
    file: STREAM,
    from: 'isResync: !state.isAnswered',
    to: 'isResync: false',
  },
  {
    title: 'source: the version of an earlier stream is sent',
    file: STREAM,
    from: 'this.#types.clear();',
    to: '',
  },
  {
    title: 'source: a NACK sends the refused version',
    file: STREAM,
    from: 'if (!errorDetail) state.version = versionInfo;',
    to: 'state.version = `${versionInfo}?`;',
  },
  {
    title: 'source: a response is not acknowledged',
    file: STREAM,
    from: 'this.#acks.push(ack, nowMs);',
    to: 'void ack;',
  },
  {
    title: 'source: an ACK postpones the timeouts of its names',
    file: 'authorities/core/sources/answers.ts',
    from: "if (subscription.status !== 'requested' || subscription.deadlineMs !== undefined) continue;",
    to: "if (subscription.status !== 'requested') continue;",
  },
  {
    title: 'source: a rejected name is absent when its time is over',
    file: STREAM,
    from: 'else if (this.#contents.isRejected(typeUrl, name)) this.#contents.timeOut(subscription);',
    to: '',
    unitTest: {
      file: 'test/unit/authorities/core/sources/sotw-rejected.test.ts',
      title:
        'a cluster that the gateway rejected is not absent when its time is over (invariant 3)',
    },
  },
  {
    title: 'source: a rejected name stays unknown although a later set lacks it',
    file: STREAM,
    from: '...this.#contents.rejectedOnly(typeUrl)',
    to: '',
  },
  {
    title: 'source: a delayed NACK is lost when an ACK of its type comes',
    file: 'authorities/core/sources/ack-queue.ts',
    from: 'for (const ack of paced.acks) this.#add(ack);',
    to: 'for (const ack of paced.acks) this.#bytes -= bytesOf(ack);',
  },
  {
    title: 'source: a name that was left times out',
    file: 'authorities/core/sources/source-contents.ts',
    from: 'known.deadlineMs = undefined;',
    to: '',
    unitTest: {
      file: 'test/unit/authorities/core/sources/late-answers.test.ts',
      title: 'a name that was unsubscribed before its timeout is not counted twice',
    },
  },
  {
    title: 'source: a wildcard that is subscribed again gets no new stream',
    file: STREAM,
    from: 'if (state?.hadNames === false && text === WILDCARD) this.#isStuck = true;',
    to: '',
  },
  {
    title: 'source: silence about endpoints is a failure',
    file: STREAM,
    from: '(typeUrl) => ALWAYS_ANSWERED.has(typeUrl) && !this.#held.has(typeUrl),',
    to: '() => this.#contents.subscriptionCount > 0,',
  },
  {
    title: 'source: a member that expired here is requested on the same stream',
    file: STREAM,
    from: 'if (lapsed.name.isGlob) this.#isStuck = true;',
    to: 'if (lapsed.name.isGlob) this.#changed.add(lapsed.typeUrl);',
  },
  {
    title: 'source: a name that was left delays the answer of a whole type',
    file: STREAM,
    from: 'if (isWholeInSotw(subscription.typeUrl)) this.#answers.forget(subscription);',
    to: "if (subscription.typeUrl === '') this.#answers.forget(subscription);",
    // The collection counts as answered 15 s later; nothing else differs.
    unitTest: {
      file: 'test/unit/authorities/core/sources/sotw-resends.test.ts',
      title: 'a whole response answers a glob although one of its names was just left (seed 741)',
    },
  },
  {
    title: 'source: a collection without a proof holds up the other claims of a client',
    file: 'gateway/core/delta/subscribed-names.ts',
    from: 'const isOpen = proven ? pending.has(glob) : !complete;',
    to: 'const isOpen = !(proven && complete) || pending.has(glob);',
    unitTest: {
      file: 'test/unit/gateway/core/delta/subscribed-names.test.ts',
      title: 'claims are open while a source may still tell whether the names exist',
    },
  },
  {
    title: 'source: names that it can never prove to be gone count for the deletion guard',
    file: 'gateway/core/cache/missing-names.ts',
    from: 'proven ? nameCount : members.size;',
    to: 'nameCount;',
  },
  {
    title: 'source: a primary that owes no response is slow',
    file: 'authorities/core/failover/failover.ts',
    from: 'return attempt?.isOwed() === true ?',
    to: 'return attempt ?',
  },
  {
    title: 'a collection is answered before its members have moved to another candidate',
    file: `authorities/core/failover/group-resources.ts`,
    from: 'if (this.#move?.isWaiting(demand) === true) return undefined;',
    to: '',
    unitTest: {
      file: MOVES,
      title: 'a collection is complete only when all of its members have moved (invariant 3)',
    },
  },
  {
    title: 'a collection is current before its members have moved back to the primary',
    file: `authorities/core/failover/failover-group.ts`,
    from: 'this.#failover.active === 0 && this.#resources.hasMoved(typeUrl, name)',
    to: 'this.#failover.active === 0',
    unitTest: {
      file: MOVES,
      title: 'a collection is complete only when all of its members have moved (invariant 3)',
    },
  },
  {
    title: 'a candidate is left before all names have moved',
    file: `authorities/core/failover/failover-group.ts`,
    from: '(this.#switching !== undefined && this.#subscribed[index] === true)',
    to: 'false',
    unitTest: {
      file: MOVES,
      title: 'the candidate that the group left stays subscribed until all names have moved',
    },
  },
  {
    title: 'the names beyond the first turn never move',
    file: `authorities/core/failover/failover-group.ts`,
    from: 'if (this.#switching || this.#resources.isBusy) return nowMs;',
    to: 'if (this.#resources.isBusy) return nowMs;',
  },
  {
    title: 'the members beyond the first turn are never compared',
    file: `authorities/core/failover/failover-group.ts`,
    from: 'if (this.#switching || this.#resources.isBusy) return nowMs;',
    to: 'if (this.#switching) return nowMs;',
    unitTest: {
      file: 'test/unit/authorities/core/failover/moves.test.ts',
      title: 'the members that a whole collection lacks are searched in portions, and go together',
    },
  },
  {
    title:
      'a member that its own name brought stays over a reconnect, in a collection that was never whole',
    file: 'authorities/core/sources/source-contents.ts',
    from: 'if (expiresAtMs === undefined) this.#erase(collection, key);',
    to: 'if (expiresAtMs === undefined && !collection.singletons.has(key)) this.#erase(collection, key);',
  },
  {
    title: 'a source that answers that it lacks a name deletes what the guard holds back',
    file: 'authorities/core/sources/source-contents.ts',
    from: 'isDoubtful: isDoubtful || !had',
    to: 'isDoubtful',
    unitTest: {
      file: 'test/unit/authorities/core/failover/deletion-guard.test.ts',
      title:
        'what the deletion guard holds back stays when another client subscribes to it (seed 164795)',
    },
  },
  {
    title: 'an assignment that comes back without endpoints is served at once',
    file: 'authorities/core/failover/group-resources.ts',
    from: 'if (isDoubtful || this.#absent.has(typeUrl, name)) this.#absent.holdBack(empty, nowMs);',
    to: '',
    unitTest: {
      file: 'test/unit/authorities/core/failover/lost-endpoints.test.ts',
      title:
        'endpoints that a source finds again soon after its restart are never lost (invariant 3)',
    },
  },
  {
    title: 'an assignment without endpoints shows that its source has loaded the others',
    file: 'authorities/core/failover/absent-names.ts',
    from: ' || !isConfirmation(projection)',
    to: '',
  },
  {
    title: 'what another source sent shows that the source in use has loaded its content',
    file: 'authorities/core/failover/absent-names.ts',
    from: 'if (from !== index) continue;',
    to: '',
    unitTest: {
      file: 'test/unit/authorities/core/failover/lost-endpoints.test.ts',
      title: 'what is kept from the primary does not show that the alternative has loaded the rest',
    },
  },
  {
    title: 'a collection that is not answered yet shows that its source has loaded it',
    file: 'authorities/core/failover/absent-names.ts',
    from: '?? contents.globOf(typeUrl, sourceName)',
    to: '',
  },
  {
    title: 'what a source has is forgotten when the endpoints before it expire',
    file: 'authorities/core/failover/group-resources.ts',
    from: 'if (this.#served.get(typeUrl, name)) return;',
    to: 'this.#served.delete(typeUrl, name);',
    unitTest: {
      file: 'test/unit/authorities/core/failover/lost-endpoints.test.ts',
      title: 'endpoints of another source that are held back go with their TTL (seed 4783)',
    },
  },
  {
    title: 'what the guard kept goes when another client subscribes to it',
    file: 'authorities/core/failover/group-resources.ts',
    from: 'const stays = this.#spec.ignoreDeletion || this.#served.get(typeUrl, name)?.isKept === true;',
    to: 'const stays = this.#spec.ignoreDeletion;',
    unitTest: {
      file: 'test/unit/authorities/core/failover/deletion-guard.test.ts',
      title: 'what the deletion guard kept stays when another client subscribes to it',
    },
  },
  {
    title: 'what the disk had is never confirmed',
    file: 'authorities/core/failover/group-resources.ts',
    from: "if (before.projection.isRestored === true) this.#events.push({ kind: 'confirmed', projection });",
    to: '',
    unitTest: {
      file: 'test/unit/authorities/core/failover/last-known.test.ts',
      title: 'an old-style name on the disk is confirmed by the entry that serves it',
    },
  },
  {
    title: 'a client that returns gets older content of the disk',
    file: 'gateway/core/session/holdings.ts',
    from: "restored: { no: 'send', maybe: 'send', other: 'wait', this: 'nothing' },",
    to: "restored: { no: 'send', maybe: 'send', other: 'send', this: 'nothing' },",
    unitTest: {
      file: 'test/unit/gateway/core/delta/resume.test.ts',
      title:
        'a client that returns keeps what it holds while only the disk has other content; a new one gets that (FAILOVER, "Content on disk")',
    },
  },
  {
    title: 'what the guard held back goes although its source was lost meanwhile',
    file: 'authorities/core/failover/removal-hold.ts',
    from: "const isOpen = (held.state === 'fresh' || isDue) && open.isOpen(held);",
    to: "const isOpen = held.state === 'fresh' && open.isOpen(held);",
    unitTest: {
      file: 'test/unit/gateway/core/cache/missing-names.test.ts',
      title:
        'what the guard holds back stays when the source is lost before the wait ends (invariant 3)',
    },
  },
  {
    title: 'a stream that must be replaced is replaced before its first response',
    file: 'authorities/core/sources/management-server.ts',
    from: "if (this.#restartReason() === undefined || this.#health.kind !== 'live') return undefined;",
    to: 'if (this.#restartReason() === undefined) return undefined;',
    unitTest: {
      file: 'test/unit/authorities/core/sources/source-variants.test.ts',
      title:
        'a source that never answers trips, although a client comes and goes with its wildcard',
    },
  },
  {
    title: 'a stream that the gateway ends itself counts as a failure of the source',
    file: 'authorities/core/sources/source-health.ts',
    from: "const isShort = !stable && end.detectedBy !== 'gateway' && end.detectedBy !== 'type';",
    to: 'const isShort = !stable;',
    unitTest: {
      file: 'test/unit/authorities/core/sources/source-health.test.ts',
      title: 'streams that the gateway itself ends never trip: they say nothing about the source',
    },
  },
  {
    title: 'a name times out although its answer waits behind a response',
    file: 'authorities/core/sources/management-server.ts',
    from: 'if (!this.isMidResponse) {',
    to: 'if (!this.#stream.inPortions.isMidResponse) {',
    unitTest: {
      file: 'test/unit/authorities/core/sources/response-portions.test.ts',
      title: 'no name times out while its answer waits behind a response (seed 21026)',
    },
  },
  {
    title: 'a look that goes on in the next turn misses what changed before it',
    file: 'gateway/core/delta/delta-session.ts',
    from: 'this.#nextLook = undefined;\n    this.#askForTurn();',
    to: 'this.#askForTurn();',
    unitTest: {
      file: 'test/unit/gateway/core/session/portions.test.ts',
      title: 'what changes before the place where a look goes on is not missed',
    },
  },
  {
    title: 'subscriptions that had nothing to send are not looked at after a change',
    file: 'gateway/core/delta/delta-subscriptions.ts',
    from: 'this.#isIdle = false;\n    this.#owner.handleReady();',
    to: 'this.#owner.handleReady();',
  },
  {
    title: 'the next response goes on with a chunk that turned out to be the last',
    file: 'gateway/core/delta/delta-subscriptions.ts',
    from: 'if (!last) this.#answerGoesOn = false;',
    to: '',
    unitTest: {
      file: 'test/unit/gateway/core/session/push-order.test.ts',
      title:
        'a response whose rest is no longer due is over: the next one is another (invariant 5)',
    },
  },
  {
    title: 'a list of another authority does not cover a name',
    file: 'gateway/core/delta/subscription-table.ts',
    from: 'if (one.typeUrl === typeUrl && one.subscribed.covers(key)) return true;',
    to: '',
    unitTest: {
      file: 'test/unit/gateway/core/delta/subscription-table.test.ts',
      title: 'a name is covered by its own authority, or by a list of any authority',
    },
  },
  {
    title: 'the deletion guard judges in the middle of a response',
    file: 'authorities/core/failover/absent-names.ts',
    from: 'source.isMidResponse === true || source.isComparing === true',
    to: 'source.isComparing === true',
    unitTest: {
      file: 'test/unit/authorities/core/failover/open-removals.test.ts',
      title: 'a removal that is due waits while a response of its source is read',
    },
  },
  {
    title: 'the deletion guard does not wait again for a source that has started again',
    file: 'authorities/core/failover/absent-names.ts',
    from: 'guardedUntilMs: () => (wellSinceMs ?? nowMs) + failover.deletionGuard.waitMs,',
    to: '',
    unitTest: {
      file: 'test/unit/authorities/core/failover/deletion-guard.test.ts',
      title:
        'deletion guard: a source that failed during the wait, and returns without the names, has started again: so does the wait (seed 410808)',
    },
  },
  {
    title: 'a stream that rotates begins the hold of a failback anew',
    file: 'authorities/core/sources/source-health.ts',
    from: 'wellSinceMs: isShort || suspect ? null : state.wellSinceMs,',
    to: 'wellSinceMs: null,',
    unitTest: {
      file: 'test/unit/authorities/core/sources/source-health.test.ts',
      title:
        'a source is well from its first response until it fails; that streams rotate is no failure',
    },
  },
  {
    title: 'a source that failed a moment ago is well',
    file: 'authorities/core/sources/source-health.ts',
    from: 'wellSinceMs: isOfType ? state.wellSinceMs : null,',
    to: 'wellSinceMs: state.wellSinceMs,',
  },
  {
    title: 'the first set of a state-of-the-world source counts as a part',
    file: STREAM,
    from: 'return isWholeInSotw(typeUrl) && this.#types.get(typeUrl)?.first.has(glob) === true;',
    to: 'return false;',
    unitTest: {
      file: 'test/unit/authorities/core/failover/whole-collections.test.ts',
      title:
        'a set of clusters or listeners is complete at once (xDS protocol, "Grouping Resources into Responses")',
    },
  },
  {
    title: 'a type that ends the stream of its source is requested again at once',
    file: 'authorities/core/sources/type-trials.ts',
    from: 'return !this.#doubts.has(typeUrl) || this.#trial?.typeUrl === typeUrl;',
    to: 'return typeUrl.length > 0;',
    unitTest: {
      file: 'test/unit/authorities/core/sources/type-trials.test.ts',
      title: 'the only type that a live stream has just requested is refused if the stream ends',
    },
  },
];
