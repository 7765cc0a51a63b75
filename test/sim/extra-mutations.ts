/** Bugs for mutations.ts, in features of some worlds only: hints, TTLs, files, clocks, disks. */
import type { Mutation } from './mutation.js';

export const EXTRA_MUTATIONS: readonly Mutation[] = [
  {
    title: 'a name in a hint is dropped before it is requested again',
    file: 'authorities/core/sources/delta-stream.ts',
    from: 'this.#pending.askAgain(subscription, !held);',
    to: 'if (held) this.#contents.remove(typeUrl, held.projection.name, false); this.#pending.askAgain(subscription, !held);',
  },
  {
    title: 'a hint that disagrees has no effect',
    file: 'gateway/core/peers/peer-hints.ts',
    from: 'const disagrees = held !== undefined && !agrees(check, held);',
    to: 'const disagrees = held !== undefined && agrees(check, held);',
  },
  {
    title: 'the comparison of digests is inverted',
    file: 'gateway/core/peers/peer-hints.ts',
    from: 'if (!own || own.hash === row.hash) continue;',
    to: 'if (!own || own.hash !== row.hash) continue;',
  },
  {
    title: 'an instance that holds nothing has no digest',
    file: 'gateway/core/peers/held-digest.ts',
    from: 'if (count === 0 && asked === 0)',
    to: 'if (count === 0)',
  },
  {
    title: 'a digest keeps the previous version of a changed name',
    file: 'gateway/core/peers/held-digest.ts',
    from: 'if (before !== undefined) toggle(row, name.key, before);',
    to: '',
  },
  {
    title: 'a stale hint cancels the hint of another instance',
    file: 'gateway/core/peers/peer-hints.ts',
    from: 'if (waiting?.from === from) this.#checks.delete(key);',
    to: 'this.#checks.delete(key);',
  },
  {
    title: 'no rate limit per name',
    file: 'gateway/core/peers/peer-hints.ts',
    from: 'if (this.#wasAsked(key, SAME_NAME_INTERVAL_MS, nowMs)) return true;',
    to: '',
  },
  {
    title: 'no rate limit for all requests together',
    file: 'authorities/core/sources/token-bucket.ts',
    from: 'if (fullAtMs - this.#burstMs > nowMs) return false;',
    to: '',
  },
  {
    title: 'nothing expires',
    file: 'authorities/core/sources/expiries.ts',
    from: 'if (atMs <= nowMs) return due;',
    to: 'if (atMs <= nowMs) continue;',
  },
  {
    title: 'a heartbeat renews nothing',
    file: 'authorities/core/sources/source-contents.ts',
    from: 'const renewed = { ...entry, expiresAtMs };',
    to: 'const renewed = { ...entry };',
  },
  {
    title: 'TTLs use the time of day',
    file: 'authorities/core/sources/resource-intake.ts',
    from: 'const expiresAtMs = ttlMs === undefined ? undefined : arrivedMs + ttlMs;',
    to: 'const expiresAtMs = ttlMs === undefined ? undefined : Date.now() + ttlMs;',
  },
  {
    title: 'an expired resource is not removed at clients',
    file: 'authorities/core/failover/group-resources.ts',
    from: "this.#events.push({ kind: 'removed', typeUrl, name, status: undefined });",
    to: '',
  },
  {
    title: 'an expired resource is not requested again',
    file: 'authorities/core/sources/resource-intake.ts',
    from: 'if (subscription) {\n      this.#resend(subscription);',
    to: 'if (subscription) {',
  },
  {
    title: 'a removal that is held back ends the TTL',
    file: 'authorities/core/failover/failover-group.ts',
    from: "kind === 'removed' ? endsMs !== undefined : ",
    to: '',
  },
  {
    title: 'TTL deadlines are lost when the group leaves a source',
    file: 'authorities/core/failover/failover-group.ts',
    from: 'if (!wanted) this.#resources.keepEnds(index, candidate);',
    to: '',
    // 2,000 worlds have no TTL that ends in just this time.
    unitTest: {
      file: 'test/unit/authorities/core/sources/ttl.test.ts',
      title: 'of two TTLs of kept content the later one counts',
    },
  },
  {
    title: 'kept members stay when the primary answers their collection late',
    file: 'authorities/core/failover/group-resources.ts',
    from: `      demand.isWhole = true;
      if (index === 0) this.#absent.search(this.covered(demand), nowMs);`,
    to: 'demand.isWhole = true;',
    unitTest: {
      file: 'test/unit/authorities/core/failover/open-removals.test.ts',
      title:
        'a collection that the primary answers late removes additional members of the alternative',
    },
  },
  {
    title: 'a half-written file loses its resources',
    file: 'authorities/core/sources/good-files.ts',
    from: 'const kept = had.filter((resource) => !names.has(resource));',
    to: 'const kept: readonly FileResource[] = had.slice(0, 0);',
  },
  {
    title: 'a file that was never valid proves its names absent',
    file: 'authorities/core/sources/good-files.ts',
    from: 'const isWhole = wasListed && inOrder.every((file) => file?.isWhole === true);',
    to: 'const isWhole = true;',
  },
  {
    title: 'a missing directory counts as empty',
    file: 'authorities/core/sources/file-source.ts',
    from: 'this.#unreadable = this.#liveSinceMs === undefined;',
    to: 'this.handleLoaded({ resources: [], nowMs: this.#liveSinceMs ?? 0 });',
  },
  {
    title: 'resources of a vanished file stay',
    file: 'authorities/core/sources/file-source.ts',
    from: 'if (isGone) this.contents.remove(typeUrl, projection.name, isDoubtful);',
    to: 'if (isGone) continue;',
  },
  {
    title: 'an answer of a directory ends after its first portion',
    file: 'authorities/core/sources/file-source.ts',
    from: 'if (answering?.next().done === false) this.#answering = answering;',
    to: 'answering?.next();',
  },
  {
    title: 'a damaged state file is accepted',
    file: 'gateway/state-file/collection-file.ts',
    from: "if (text !== [...written].join(''))",
    to: "if (text === '')",
  },
  {
    title: 'times in the state file are read with another clock',
    file: 'gateway/state-file/collection-file.ts',
    from: 'fromWallClock: (atMs) => Math.min(nowMs, atMs - aheadMs),',
    to: 'fromWallClock: (atMs) => atMs - 3 * 3_600_000,',
  },
];
