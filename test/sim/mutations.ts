/**
 * Bugs to plant in the cores, one at a time: the simulation must find each. `from` must occur
 * exactly once in the file.
 */
import { COLD_MUTATIONS } from './cold-mutations.js';
import { EXTRA_MUTATIONS } from './extra-mutations.js';
import { VARIANT_MUTATIONS } from './variant-mutations.js';
import type { Mutation } from './mutation.js';

const AUTHORITIES = 'authorities/core';
const GATEWAY = 'gateway/core';

export const MUTATIONS: readonly Mutation[] = [
  {
    title: 'no hysteresis: failback as soon as the primary answers',
    file: `${AUTHORITIES}/failover/failover.ts`,
    from: 'return (wellSinceMs ?? Infinity) + holdMs;',
    to: 'return (wellSinceMs ?? Infinity) + Math.min(holdMs, 0);',
  },
  {
    title: 'failover ignores the hold',
    file: `${AUTHORITIES}/failover/failover.ts`,
    from: 'if (held || !isReady(state, facts, target, policy)) return state;',
    to: 'if (!isReady(state, facts, target, policy)) return state;',
  },
  {
    title: 'a tripped source counts as back after each first response',
    file: `${AUTHORITIES}/failover/failover.ts`,
    from: 'if (active.live && !active.tripped) {',
    to: 'if (active.live) {',
  },
  {
    title: 'a group without content does not wait for its primary',
    file: `${AUTHORITIES}/failover/failover.ts`,
    from: 'attempt.sinceMs + policy.coldWaitMs',
    to: 'attempt.sinceMs',
  },
  {
    title: "the gateway's own versions are sent to a server",
    file: `${AUTHORITIES}/sources/delta-stream.ts`,
    from: 'versions.set(wireText(projection.name.key), upstreamVersion);',
    to: 'versions.set(wireText(projection.name.key), projection.version || upstreamVersion);',
  },
  {
    title: 'the end of a stable stream counts as a failure',
    file: `${AUTHORITIES}/sources/source-health.ts`,
    from: 'const stable = livedMs >= timers.minStableMs;',
    to: 'const stable = livedMs < 0;',
  },
  {
    title: 'a single failed attempt trips',
    file: `${AUTHORITIES}/sources/source-health.ts`,
    from: 'failures >= timers.failedAttemptLimit',
    to: 'failures >= 1',
  },
  {
    title: 'no backoff',
    file: `${AUTHORITIES}/sources/source-health.ts`,
    from: 'retryAtMs: input.nowMs + delayMs,',
    to: 'retryAtMs: input.nowMs + Math.min(delayMs, 10),',
  },
  {
    title: 'the stream stays open without subscriptions',
    file: `${AUTHORITIES}/sources/source-health.ts`,
    from: 'closeAtMs: wanted ? null : nowMs + timers.lingerMs',
    to: 'closeAtMs: wanted ? null : nowMs + Infinity',
  },
  {
    title: 'a source that is still loading loses the names that have not come yet',
    file: `${AUTHORITIES}/failover/removal-hold.ts`,
    from: 'if (soonestMs > this.#soonestMs) {',
    to: 'if (soonestMs === Infinity) {',
    unitTest: {
      file: 'test/unit/authorities/core/failover/deletion-guard.test.ts',
      title:
        'while a source that returned takes absences back, it is still loading, and no other name goes',
    },
  },
  {
    title: 'a lost source removes its resources',
    file: `${AUTHORITIES}/failover/group-resources.ts`,
    from: 'for (const demand of this.#demandsInOrder()) this.serveFromCache(demand);',
    to: 'for (const demand of this.#demands.values()) this.#remove(demand.typeUrl, demand.name);',
  },
  {
    title: 'absence at an alternative removes held content',
    file: `${AUTHORITIES}/failover/group-resources.ts`,
    from: 'if (served.from !== index && index !== 0) return;',
    to: '',
  },
  {
    title: 'absence at an alternative proves absence',
    file: `${AUTHORITIES}/failover/group-resources.ts`,
    from: 'if (demand && index === 0)',
    to: 'if (demand)',
  },
  {
    // Both halves: while the primary is away, each of them hides the lack of the other from clients. The
    // unit tests of a group see each half.
    title: 'a complete collection of an alternative is proof',
    file: `${AUTHORITIES}/failover/demand-answer.ts`,
    from: `if (index !== 0 && !isHeld) return { kind: 'unavailable', typeUrl, name, status: undefined };
    const isProof = index === 0 && source`,
    to: 'const isProof = source',
  },
  {
    title: 'content that the primary lacks stays after the failback',
    file: `${AUTHORITIES}/failover/group-resources.ts`,
    from: 'if (index === 0) this.#absent.holdBack(kept,',
    to: 'if (index < 0) this.#absent.holdBack(kept,',
  },
  {
    title: 'references in content of an alternative are not mapped',
    file: `${AUTHORITIES}/failover/candidate-content.ts`,
    from: 'reproject(projection, name, mapping.toReference)',
    to: 'reproject(projection, name, (one) => one)',
  },
  {
    title: 'a switch sends no changes',
    file: `${AUTHORITIES}/failover/move.ts`,
    from: 'if (serve(demand, entry, nowMs)) this.#changed++;',
    to: 'this.#changed++;',
  },
  {
    title: "the payload keeps the source's name",
    file: `${AUTHORITIES}/projection.ts`,
    from: 'ownName: isOldStyle(name) ? null : wireText(name.key),',
    to: 'ownName: null,',
  },
  {
    title: 'unsubscriptions are not sent to the source',
    file: `${AUTHORITIES}/sources/management-server.ts`,
    from: 'this.#stream.handleUnsubscribed(left, nowMs);',
    to: '',
  },
  {
    title: 'subscriptions on a live stream are not sent',
    file: `${AUTHORITIES}/sources/management-server.ts`,
    from: 'this.#stream.handleSubscribed(added, nowMs);',
    to: '',
  },
  {
    title: 'a refused response gets no NACK',
    file: `${AUTHORITIES}/sources/delta-stream.ts`,
    from: 'return this.#finish(response, 0, duplicates.refusals, nowMs);',
    to: 'return { typeUrl, outcome: { accepted: 0, refused: duplicates.refusals }, errors };',
  },
  {
    title: 'a duplicate in a response is accepted',
    file: `${AUTHORITIES}/sources/delta-stream.ts`,
    from: 'const duplicates = new DuplicateSearch(namesOf(response));',
    to: 'const duplicates = new DuplicateSearch(response.removed);',
  },
  {
    title: 'chains of redirects are not checked',
    file: `${AUTHORITIES}/resolution/link.ts`,
    from: 'return problem === undefined;',
    to: 'return true;',
  },
  {
    title: 'cycles of redirects keep themselves watched',
    file: `${AUTHORITIES}/resolution/redirects.ts`,
    from: 'if (!(watcher instanceof Link)) return true;',
    to: 'if (watcher) return true;',
  },
  {
    title: 'a member that became a redirect to nothing stays',
    file: `${AUTHORITIES}/resolution/redirects.ts`,
    from: 'link.open(known ? known.served : before?.redirect ? undefined : before);',
    to: 'link.open(known?.served);',
  },
  {
    title: 'the second watcher of a redirect to nothing gets no event',
    file: `${AUTHORITIES}/resolution/link.ts`,
    from: 'watcher.onDoesNotExist(typeUrl, name, this.#absence.status);',
    to: '',
  },
  {
    title: 'a member subscribed by name answers its glob',
    file: `${AUTHORITIES}/sources/resource-intake.ts`,
    from: "const event = isAsked ? 'shared' : partial ? 'part' : 'member';",
    to: "const event = partial ? 'part' : 'member';",
  },
  {
    title: 'a response on its way answers a resubscribed glob',
    file: `${AUTHORITIES}/sources/answers.ts`,
    from: "if (isRecent) this.#step(subscription, 'left', nowMs);",
    to: '',
  },
  {
    title: 'members of a removed list entry stay',
    file: `${AUTHORITIES}/resolution/list-view.ts`,
    from: 'this.#leave(entry);',
    to: '',
  },
  {
    title: 'a list is complete before its entries are answered',
    file: `${AUTHORITIES}/resolution/list-view.ts`,
    from: 'this.#proofTold === true || this.#waitingFor.size > 0) return;',
    to: 'this.#proofTold === true) return;',
    unitTest: {
      file: 'test/unit/authorities/core/resolution/lists.test.ts',
      title: 'a list is complete when all of its entries are answered (invariant 3)',
    },
  },
  {
    title: 'a list may lead to any authority',
    file: `${AUTHORITIES}/resolution/list-view.ts`,
    from: 'authorityProblem(this.#port, this.name.authority, target.authority) ??',
    to: '',
  },
  {
    title: 'a member leaves a list although another entry leads to it',
    file: `${AUTHORITIES}/resolution/list-view.ts`,
    from: 'if (!said?.delete(entry)) return;',
    to: 'if (!said?.delete(entry)) return;\n    said.clear();',
  },
  {
    title: 'a resumed list member counts for its own authority, not for the list',
    file: `${GATEWAY}/delta/resumed-versions.ts`,
    from: 'lists.length === 1 ? lists',
    to: 'lists.length === 1 && lists[0]?.subscriptions === subscriptions ? lists',
  },
  {
    title: 'a removed member counts as held when it returns',
    file: `${GATEWAY}/delta/delta-subscriptions.ts`,
    from: 'this.#possiblyHeld.of(name.key)?.delete(key);',
    to: '',
  },
  {
    title: 'a redirect may lead to any authority',
    file: `${AUTHORITIES}/resolution/name-route.ts`,
    from: 'return spec.mayLeadTo?.includes(to) === true;',
    to: 'return true;',
  },
  {
    title: 'resources stay after a reload takes the right to them away',
    file: `${AUTHORITIES}/federation.ts`,
    from: 'this.#delivery.noteLost(served.filter(({ name }) => !authorityOf(this.#map, name.authority)));',
    to: '',
  },
  {
    title: 'the deletion guard is off',
    file: `${AUTHORITIES}/failover/removal-hold.ts`,
    from: 'return (going > count && going >= total * share)',
    to: 'return (going > count + 1_000 && going >= total * share)',
  },
  {
    title: 'a stream gets a shared response twice, with the same nonce',
    file: `${GATEWAY}/cache/shared-responses.ts`,
    from: 'known.number > lastNumber && ',
    to: '',
  },
  {
    title: 'responses that begin with the same resource are shared',
    file: `${GATEWAY}/cache/shared-responses.ts`,
    from: ' && isSame(known.parts, parts)',
    to: '',
  },
  {
    title: 'a resubscribed name is not resent',
    file: `${GATEWAY}/delta/delta-subscriptions.ts`,
    from: `Object.assign(known, { asked, held, isClaim, toldAbsent, lastErrorCode });
    } else {
      const entry = this.#cache.subscribeName`,
    to: `known.asked = asked;
    } else {
      const entry = this.#cache.subscribeName`,
  },
  {
    title: 'a resubscribed glob is not resent',
    file: `${GATEWAY}/delta/delta-subscriptions.ts`,
    from: `Object.assign(known, newGlobSubscription(known.entry, asked), { formerSeq });
      // What went`,
    to: '// What went',
  },
  {
    title: 'a change during an unacknowledged response is dropped',
    file: `${GATEWAY}/delta/delta-subscriptions.ts`,
    from: `    } else {
      this.#due.queueName(known);`,
    to: `    } else if (this.unacknowledged.isEmpty) {
      this.#due.queueName(known);`,
  },
  {
    title: 'a resume accepts stale versions of members',
    file: `${GATEWAY}/delta/delta-subscriptions.ts`,
    from: "if (dutyOf('present', held, projection.version) === 'nothing') {",
    to: 'if (held !== NOT_HELD) {',
  },
  {
    // The second condition of the line matters only to a client that withholds its ACK for a second
    // within an answer of several responses: unsubscribed-names.test.ts holds it.
    title: 'a member that is also subscribed by name comes twice',
    file: `${GATEWAY}/delta/delta-subscriptions.ts`,
    from: 'if (this.#names.has(member.key) || this.#due.unsubscribedNames.has(member.key)) continue;',
    to: 'if (this.#due.unsubscribedNames.has(member.key)) continue;',
  },
  {
    title: 'a new subscriber of a collection skips its removals',
    file: `${GATEWAY}/delta/subscription.ts`,
    from: 'removedSeq: entry.collection.droppedSeq,',
    to: 'removedSeq: entry.collection.tombstones.lastSeq,',
  },
  {
    title: 'listeners and routes do not wait for clusters',
    file: `${GATEWAY}/session/push-order.ts`,
    from: 'if (!isUnsent && newUntilMs <= nowMs) return undefined;',
    to: 'if ((!isUnsent && newUntilMs <= nowMs) || nowMs > 0) return undefined;',
  },
  {
    title: 'listeners and routes do not wait for the request for clusters of a client that returns',
    file: `${GATEWAY}/session/push-order.ts`,
    from: 'if (clusters?.holdsFirstSet(nowMs) !== true) return clustersAwaitedUntilMs;',
    to: 'if (clusters?.holdsFirstSet(nowMs) !== true) return undefined;',
  },
  {
    title: 'listeners and routes do not wait for a request for endpoints that follows theirs',
    file: `${GATEWAY}/session/clusters-to-come.ts`,
    from: 'this.#untilMs ??= nowMs + ENDPOINTS_WAIT_MS;',
    to: '',
  },
  {
    title: 'removals do not wait for their replacements',
    file: `${GATEWAY}/session/push-order.ts`,
    from: 'untilMs = Math.max(untilMs, sentWaitUntil(other, ackDeadlineMs));',
    to: '',
  },
  {
    title: 'a nonce is reused',
    file: `${GATEWAY}/cache/shared-responses.ts`,
    from: 'const number = ++this.#nonces;',
    to: 'const number = (this.#nonces ||= 1);',
  },
  {
    title: 'a changed cluster is not followed by its assignment',
    file: `${GATEWAY}/delta/delta-session.ts`,
    from: 'assignments?.handleNameChanged(edsKey, !isNew);',
    to: 'assignments?.handleNameChanged(`${edsKey}?`, !isNew);',
  },
  {
    title: 'the last client takes the tombstones with it',
    file: `${GATEWAY}/cache/collection.ts`,
    from: 'return this.#remembered.size + this.#earlier.size;',
    to: 'return 0;',
  },
  {
    title: 'the state file is ignored',
    file: `${GATEWAY}/cache/collection.ts`,
    from: 'new RememberedMembers(members.map((key) => ({ key, joinedSeq: Infinity })));',
    to: 'new RememberedMembers([]);',
  },
  {
    title: 'resources without subscribers stay',
    file: `${GATEWAY}/cache/resource-cache.ts`,
    from: 'if (entry.subscribers.size > 0) return;',
    to: 'if (entry.subscribers.size >= 0) return;',
  },
  ...EXTRA_MUTATIONS,
  ...VARIANT_MUTATIONS,
  ...COLD_MUTATIONS,
];
