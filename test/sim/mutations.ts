/**
 * Bugs to plant in the cores, one at a time: the simulation must find each. `from` must occur
 * exactly once in the file.
 */
import { COLD_MUTATIONS } from './cold-mutations.js';
import { EXTRA_MUTATIONS } from './extra-mutations.js';
import type { Mutation } from './mutation.js';

const AUTHORITIES = 'authorities/core';
const GATEWAY = 'gateway/core';

export const MUTATIONS: readonly Mutation[] = [
  {
    title: 'no hysteresis: back as soon as the primary answers',
    file: `${AUTHORITIES}/failover.ts`,
    from: 'facts.nowMs - liveSinceMs >= state.holdMs',
    to: 'facts.nowMs >= liveSinceMs',
  },
  {
    title: 'hold ignored on the way out',
    file: `${AUTHORITIES}/failover.ts`,
    from: 'if (held || !isReady(state, facts, target, policy)) return state;',
    to: 'if (!isReady(state, facts, target, policy)) return state;',
  },
  {
    title: 'what has tripped counts as back with each first response',
    file: `${AUTHORITIES}/failover.ts`,
    from: 'if (active.live && !active.tripped) {',
    to: 'if (active.live) {',
  },
  {
    title: 'versions of ours told to a server',
    file: `${AUTHORITIES}/delta-stream.ts`,
    from: 'versions.set(wireText(projection.name.key), upstreamVersion);',
    to: 'versions.set(wireText(projection.name.key), projection.version || upstreamVersion);',
  },
  {
    title: 'the end of a stream that answered and lived counts as a failure',
    file: `${AUTHORITIES}/source-health.ts`,
    from: 'const stable = livedMs >= timers.minStableMs;',
    to: 'const stable = livedMs < 0;',
  },
  {
    title: 'a single failed attempt trips',
    file: `${AUTHORITIES}/source-health.ts`,
    from: 'failures >= timers.failedAttemptLimit',
    to: 'failures >= 1',
  },
  {
    title: 'no backoff',
    file: `${AUTHORITIES}/source-health.ts`,
    from: 'retryAtMs: input.nowMs + delayMs,',
    to: 'retryAtMs: input.nowMs + Math.min(delayMs, 10),',
  },
  {
    title: 'the stream stays when nobody asks any more',
    file: `${AUTHORITIES}/source-health.ts`,
    from: 'closeAtMs: wanted ? null : nowMs + timers.lingerMs',
    to: 'closeAtMs: wanted ? null : nowMs + Infinity',
  },
  {
    title: 'removal on disconnect',
    file: `${AUTHORITIES}/group-view.ts`,
    from: 'for (const demand of this.#demands.values()) this.#tellUnavailable(demand);',
    to: 'for (const demand of this.#demands.values()) this.#remove(demand.typeUrl, demand.name);',
  },
  {
    title: 'an absent alternative is proof against what is held',
    file: `${AUTHORITIES}/group-view.ts`,
    from: 'if (served.from !== index && index !== 0) return;',
    to: '',
  },
  {
    title: 'an absent alternative is proof of absence',
    file: `${AUTHORITIES}/group-view.ts`,
    from: 'if (demand && index === 0)',
    to: 'if (demand)',
  },
  {
    title: 'the completion of an alternative is proof',
    file: `${AUTHORITIES}/group-view.ts`,
    from: 'index === 0 && source.contents.isWhole(',
    to: 'source.contents.isWhole(',
  },
  {
    title: 'what the primary lacks is kept after the way back',
    file: `${AUTHORITIES}/group-view.ts`,
    from: 'if (index === 0) this.questionKept(nowMs);',
    to: '',
  },
  {
    title: 'references of an alternative as they are',
    file: `${AUTHORITIES}/group-view.ts`,
    from: 'reproject(entry.projection, name, mapping.toReference)',
    to: 'reproject(entry.projection, name, (one) => one)',
  },
  {
    title: 'the switch tells nothing',
    file: `${AUTHORITIES}/group-view.ts`,
    from: 'if (this.#serveTo(demand, entry, nowMs)) changed++;',
    to: 'changed += entry ? 1 : 0;',
  },
  {
    title: 'the name in a payload stays that of the source',
    file: `${AUTHORITIES}/projection.ts`,
    from: 'ownName: isOldStyle(name) ? null : name.key,',
    to: 'ownName: null,',
  },
  {
    title: 'no unsubscribe at the source',
    file: `${AUTHORITIES}/management-server.ts`,
    from: 'this.#stream.handleUnsubscribed(left, nowMs);',
    to: '',
  },
  {
    title: 'what is subscribed on a live stream is not sent',
    file: `${AUTHORITIES}/management-server.ts`,
    from: 'this.#stream.handleSubscribed(added, nowMs);',
    to: '',
  },
  {
    title: 'a refused response is not refused aloud',
    file: `${AUTHORITIES}/delta-stream.ts`,
    from: `this.#acknowledge(response, refused);
      return { accepted: 0, refused };`,
    to: 'return { accepted: 0, refused };',
  },
  {
    title: 'a duplicate in a response is taken',
    file: `${AUTHORITIES}/delta-stream.ts`,
    from: 'const duplicate = firstDuplicate(response);',
    to: 'const duplicate = firstDuplicate({ ...response, resources: [] });',
  },
  {
    title: 'the chain of redirects is not judged',
    file: `${AUTHORITIES}/redirects.ts`,
    from: 'return problem === undefined;',
    to: 'return true;',
  },
  {
    title: 'circles of redirects keep themselves',
    file: `${AUTHORITIES}/redirects.ts`,
    from: 'if (!(watcher instanceof Link)) return true;',
    to: 'if (watcher) return true;',
  },
  {
    title: 'a member that became a redirect to nothing is held on',
    file: `${AUTHORITIES}/redirects.ts`,
    from: 'link.open(known ? known.served : before);',
    to: 'link.open(known?.served);',
  },
  {
    title: 'who comes second to a redirect to nothing waits',
    file: `${AUTHORITIES}/redirects.ts`,
    from: "else if (this.#absence?.kind === 'gone') this.#tellGone(this.#absence.status);",
    to: "else if (this.#absence?.kind === 'gone') return;",
  },
  {
    title: 'a member asked for by itself answers for its glob',
    file: `${AUTHORITIES}/source-contents.ts`,
    from: 'if (partial || singleton) return collection.glob;',
    to: 'if (partial) return collection.glob;',
  },
  {
    title: 'what was on its way answers for a glob that is asked again',
    file: `${AUTHORITIES}/unsure-answers.ts`,
    from: 'return glob !== undefined && this.#doubted.has(glob);',
    to: 'return false;',
  },
  {
    title: 'what left a list stays a member',
    file: `${AUTHORITIES}/list-view.ts`,
    from: 'if (!this.#entries.has(key)) this.#leave(entry);',
    to: '',
  },
  {
    title: 'a list is whole before its entries are answered',
    file: `${AUTHORITIES}/list-view.ts`,
    from: 'this.#proofTold === true || this.#waitingFor.size > 0) return;',
    to: 'this.#proofTold === true) return;',
  },
  {
    title: 'a list may lead anywhere',
    file: `${AUTHORITIES}/list-view.ts`,
    from: 'authorityProblem(this.#port, this.name.authority, target.authority) ??',
    to: '',
  },
  {
    title: 'what goes by one entry of a list goes, though another one leads there',
    file: `${AUTHORITIES}/list-view.ts`,
    from: 'if (!said?.delete(entry)) return;',
    to: 'if (!said?.delete(entry)) return;\n    said.clear();',
  },
  {
    title: 'a resumed member of a list is looked for at its own authority',
    file: `${GATEWAY}/client-session.ts`,
    from: 'else if (lists.length === 1)',
    to: 'else if (lists.length === 1 && lists[0]?.lane === lane)',
  },
  {
    title: 'a member that was told to be gone counts as held when it returns',
    file: `${GATEWAY}/lane.ts`,
    from: 'this.#resumed.of(name.key)?.delete(key);',
    to: '',
  },
  {
    title: 'a redirect may lead anywhere',
    file: `${AUTHORITIES}/name-route.ts`,
    from: 'return spec.mayLeadTo?.includes(to) === true;',
    to: 'return true;',
  },
  {
    title: 'a lost right takes nothing away',
    file: `${AUTHORITIES}/federation.ts`,
    from: 'this.#lost.push(...group.servedResources());',
    to: '',
  },
  {
    title: 'the deletion guard is off',
    file: `${AUTHORITIES}/removal-hold.ts`,
    from: 'return (going > count && going >= total * share)',
    to: 'return (going > count + 1_000 && going >= total * share)',
  },
  {
    title: 'no resend of a name that is subscribed again',
    file: `${GATEWAY}/lane.ts`,
    from: `Object.assign(known, unsaid);
    } else {
      const entry = this.#cache.subscribeName`,
    to: `known.asked = asked;
    } else {
      const entry = this.#cache.subscribeName`,
  },
  {
    title: 'no resend of a glob that is subscribed again',
    file: `${GATEWAY}/lane.ts`,
    from: `Object.assign(known, unsaidGlob(known.entry, asked));
      // What went`,
    to: '// What went',
  },
  {
    title: 'a change while an answer is on its way is dropped',
    file: `${GATEWAY}/lane.ts`,
    from: `    } else {
      this.#pending.add(known);`,
    to: `    } else if (this.unacknowledged.isEmpty) {
      this.#pending.add(known);`,
  },
  {
    title: 'a resume trusts stale versions of members',
    file: `${GATEWAY}/lane.ts`,
    from: 'if (resumedVersion === projection.version) {',
    to: 'if (resumedVersion !== undefined) {',
  },
  {
    title: 'a member left as a name comes twice',
    file: `${GATEWAY}/lane.ts`,
    from: 'if (this.#names.has(member.key) || this.#leftNames.has(member.key)) continue;',
    to: 'if (this.#names.has(member.key)) continue;',
  },
  {
    title: 'a new reader of a collection skips its removals',
    file: `${GATEWAY}/subscription.ts`,
    from: 'removedSeq: entry.collection.droppedSeq,',
    to: 'removedSeq: entry.collection.tombstones.lastSeq,',
  },
  {
    title: 'listeners and routes do not wait for clusters',
    file: `${GATEWAY}/push-order.ts`,
    from: 'if (!isUnsent && newUntilMs <= nowMs) return undefined;',
    to: 'if ((!isUnsent && newUntilMs <= nowMs) || nowMs > 0) return undefined;',
  },
  {
    title: 'removals do not wait for what replaces them',
    file: `${GATEWAY}/push-order.ts`,
    from: 'untilMs = Math.max(untilMs, sentWaitUntil(other, ackDeadlineMs));',
    to: '',
  },
  {
    title: 'a nonce is used again',
    file: `${GATEWAY}/client-session.ts`,
    from: `const nonce = String(++this.#nonces);
    const bytes`,
    to: `const nonce = String(this.#nonces);
    const bytes`,
  },
  {
    title: 'no assignment after a changed cluster',
    file: `${GATEWAY}/client-session.ts`,
    from: 'if (lane.rank === ASSIGNMENT_RANK) lane.handleNameChanged(edsKey, !isNew);',
    to: 'if (lane.rank === ASSIGNMENT_RANK) lane.handleNameChanged(`${edsKey}?`, !isNew);',
  },
  {
    title: 'tombstones go with the last client',
    file: `${GATEWAY}/collection.ts`,
    from: 'return this.#rememberedKeys.size + this.#earlier.size > 0;',
    to: 'return false;',
  },
  {
    title: 'the state file is not believed',
    file: `${GATEWAY}/collection.ts`,
    from: 'this.#rememberedKeys = new Set(members);',
    to: 'this.#rememberedKeys = new Set(members.slice(members.length));',
  },
  {
    title: 'what nobody subscribes to is kept',
    file: `${GATEWAY}/resource-cache.ts`,
    from: 'if (entry.subscribers.size > 0) return;',
    to: 'if (entry.subscribers.size >= 0) return;',
  },
  ...EXTRA_MUTATIONS,
  ...COLD_MUTATIONS,
];
