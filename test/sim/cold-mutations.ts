/** Bugs for mutations.ts, in cold starts, the deletion guard and paced ACKs. */
import type { Mutation } from './mutation.js';

const AUTHORITIES = 'authorities/core';
const GATEWAY = 'gateway/core';

export const COLD_MUTATIONS: readonly Mutation[] = [
  {
    title: 'cold: the first message of a collection counts as all of it',
    file: `${AUTHORITIES}/failover/group-resources.ts`,
    from: 'demand.isWhole = !mayAddMembers(candidate, demand);',
    to: 'demand.isWhole = true;',
  },
  {
    title: 'cold: a collection is whole without a quiet time',
    file: `${AUTHORITIES}/failover/whole-waits.ts`,
    from: 'return ms + this.#switchWaitMs + WHOLE_MARGIN_MS;',
    to: 'return ms;',
  },
  {
    // Both halves: new members of the collection, and of its type. Without the second alone, parts of a
    // response with members of other collections alone have to last for the whole time.
    title: 'cold: a new member does not restart the quiet time',
    file: `${AUTHORITIES}/failover/whole-waits.ts`,
    from: `const quietAtMs = this.#quietAfter(lastArrivalMs(demand.typeUrl));
      if (quietAtMs <= nowMs || nowMs >= atMostMs) due.push(demand);
      else this.#waits.set(key, { demand, wholeAtMs: Math.min(quietAtMs, atMostMs), atMostMs });
    }
    return due;
  }

  #restart(demand: Demand, nowMs: number): void {
    const key = keyOf(demand.typeUrl, demand.name);
`,
    to: `due.push(demand);
    }
    return due;
  }

  #restart(demand: Demand, nowMs: number): void {
    const key = keyOf(demand.typeUrl, demand.name);
    if (this.#waits.has(key)) return;
`,
  },
  {
    title: 'cold: a claimed name is removed at once',
    file: `${GATEWAY}/delta/delta-subscriptions.ts`,
    from: 'if (known.isClaim && isDoubtful(state)) this.#owner.handleDoubt({ key, subscriptions: this });',
    to: 'if (known.isClaim && isDoubtful(state) && !this.typeUrl) return;',
  },
  {
    title: 'cold: a claimed member is removed at once',
    file: `${GATEWAY}/delta/delta-subscriptions.ts`,
    from: 'const isDoubted = isClaim && !isLost && !collection.isBuried(key);',
    to: 'const isDoubted = isClaim && !isLost && !collection.isBuried(key) && !this.typeUrl;',
    unitTest: {
      file: 'test/unit/gateway/core/delta/cold-delta.test.ts',
      title: 'a name that the source sends meanwhile is kept, by name and as a member',
    },
  },
  {
    title: 'cold: no deletion guard for claimed names',
    file: `${GATEWAY}/delta/claims.ts`,
    from: 'new RemovalHold(policy.deletionGuard);',
    to: 'new RemovalHold({ ...policy.deletionGuard, waitMs: 0 });',
  },
  {
    title: 'cold: no deletion guard for names in the state file',
    file: `${GATEWAY}/cache/missing-names.ts`,
    from: 'new RemovalHold<MissingName>(policy.deletionGuard);',
    to: 'new RemovalHold<MissingName>({ ...policy.deletionGuard, waitMs: 0 });',
  },
  {
    title: 'cold: a source that still sends has no other names',
    file: `${GATEWAY}/cache/missing-names.ts`,
    from: 'if (isCurrent(typeUrl, glob)) return isGrowing;',
    to: 'if (isCurrent(typeUrl, glob)) return false;',
    unitTest: {
      file: 'test/unit/gateway/core/cache/missing-names.test.ts',
      title: 'an authority that always gets more members keeps what it lacks for a minute',
    },
  },
  {
    title:
      'cold: the guard of names in the state file does not wait again for a source that has started again',
    file: `${GATEWAY}/cache/missing-names.ts`,
    from: 'guardedUntilMs(typeUrl, glob), sinceMs',
    to: '-Infinity, sinceMs',
    unitTest: {
      file: 'test/unit/gateway/core/cache/missing-names.test.ts',
      title: 'the guard waits anew for a source that failed during its wait (seed 410808)',
    },
  },
  {
    title:
      'cold: the guard of claimed names does not wait again for a source that has started again',
    file: `${GATEWAY}/delta/claims.ts`,
    from: 'subscriptions.claimGuardedUntilMs(key)',
    to: '-Infinity',
    unitTest: {
      file: 'test/unit/gateway/core/delta/cold-delta.test.ts',
      title: 'the guard waits anew for a source that failed during its wait (seed 410808)',
    },
  },
  {
    title: 'cold: the guard of a first set does not wait again for a source that has started again',
    file: `${GATEWAY}/sotw/set-losses.ts`,
    from: 'this.#cache.guardedUntilMs(typeUrl, sample)',
    to: '-Infinity',
    unitTest: {
      file: 'test/unit/gateway/core/sotw/set-losses.test.ts',
      title: 'the guard waits anew for a source that failed during its wait (seed 410808)',
    },
  },
  {
    title: 'cold: a name in the state file that is absent counts as removed',
    file: `${GATEWAY}/cache/resource-cache.ts`,
    from: 'this.#missing.add(entry, missing, policy, this.#directory.nowMs);',
    to: 'for (const key of missing) collection.settleRemembered(key, this.#directory.nowMs);',
  },
  {
    title: 'cold: a set that loses many names is sent at once',
    file: `${GATEWAY}/sotw/all-required-responses.ts`,
    from: 'return this.heldUntilMs !== undefined && nowMs < this.heldUntilMs',
    to: 'return this.heldUntilMs !== undefined && nowMs < 0',
  },
  {
    title: 'cold: an empty set for unknown names',
    file: `${GATEWAY}/sotw/all-required-responses.ts`,
    from: 'return this.#hasContent(false) ? undefined : Infinity;',
    to: 'return undefined;',
  },
  {
    title: 'cold: an error alone sends a whole set',
    file: `${GATEWAY}/sotw/all-required-responses.ts`,
    from: 'if (!found.changed && !isFirst && !this.#withheld) return undefined;',
    to: 'if (!found.changed && !isFirst && this.#unexplained.size === 0) return undefined;',
  },
  {
    title: 'cold: a glob is reported as unavailable',
    file: `${GATEWAY}/delta/subscription.ts`,
    from: 'if (isProven) tellError(glob, error, draft);',
    to: 'tellError(glob, error, draft);',
  },
  {
    title: 'cold: a glob is reported as empty without proof',
    file: `${GATEWAY}/delta/subscription.ts`,
    from: 'if (!isProven || glob.toldEmpty) return;',
    to: 'if (glob.toldEmpty) return;',
  },
  {
    title: 'cold: a matching version suppresses the response to a first request with names',
    file: `${GATEWAY}/sotw/all-required-responses.ts`,
    from: 'const hasAll = resumed === set.versionInfo && this.#subscriptions.names.size === 0;',
    to: 'const hasAll = resumed === set.versionInfo;',
  },
  {
    title: 'cold: a placeholder replaces content that the client resumes with',
    file: `${GATEWAY}/sotw/all-required-responses.ts`,
    from: 'for (const known of this.#subscriptions.isResuming ? [] : this.#subscriptions.pending) {',
    to: 'for (const known of this.#subscriptions.pending) {',
  },
  {
    title: 'pace: the next response waits for the ACK',
    file: `${GATEWAY}/session/unacknowledged.ts`,
    from: 'const untilMs = this.#lastSentMs + PACE_MS;',
    to: 'const untilMs = Infinity;',
  },
  {
    title: 'pace: the next response follows at once',
    file: `${GATEWAY}/session/unacknowledged.ts`,
    from: 'const untilMs = this.#lastSentMs + PACE_MS;',
    to: 'const untilMs = 0;',
  },
  {
    title: 'pace: five responses are unacknowledged',
    file: `${GATEWAY}/session/unacknowledged.ts`,
    from: 'const MAX_UNACKNOWLEDGED = 4;',
    to: 'const MAX_UNACKNOWLEDGED = 5;',
  },
  {
    title: 'pace: the late ACK of an earlier response counts for the last one',
    file: `${GATEWAY}/session/unacknowledged.ts`,
    from: 'this.#passedOver.delete(nonce);\n      return sentMs;',
    to: 'this.#passedOver.delete(nonce);\n      this.#answers.pop();\n      return sentMs;',
  },
  {
    title: 'pace: any nonce acknowledges the oldest response',
    file: `${GATEWAY}/session/unacknowledged.ts`,
    from: 'const sentMs = this.#passedOver.get(nonce);',
    to: 'const sentMs = this.#answers.shift()?.sentMs;',
  },
  {
    title: 'NACK: what was refused is sent again after a second',
    file: `${GATEWAY}/delta/nack-retries.ts`,
    from: 'const FIRST_RETRY_MS = 60_000;',
    to: 'const FIRST_RETRY_MS = 1_000;',
  },
  {
    title: 'NACK: a retry repeats what is in flight',
    file: `${GATEWAY}/delta/nack-retries.ts`,
    from: ' || !subscriptions.unacknowledged.isEmpty) continue;',
    to: ') continue;',
    // An ACK is seldom a minute late in the worlds.
    unitTest: {
      file: 'test/unit/gateway/core/delta/delta-rules.test.ts',
      title:
        'a collection with a refused member is sent again as a whole, after the ACK of what is in flight',
    },
  },
];
