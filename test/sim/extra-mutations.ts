/** Bugs for mutations.ts, in features of some worlds only: hints, TTLs, files, clocks, disks. */
import type { Mutation } from './mutation.js';

export const EXTRA_MUTATIONS: readonly Mutation[] = [
  {
    title: 'what a hint is about is dropped before it is asked again',
    file: 'authorities/core/sources/delta-stream.ts',
    from: 'this.#pending.askAgain(subscription, !held);',
    to: 'if (held) this.#contents.remove(typeUrl, held.projection.name, false); this.#pending.askAgain(subscription, !held);',
  },
  {
    title: 'a hint that disagrees leads to nothing',
    file: 'gateway/core/peers/peer-hints.ts',
    from: 'const disagrees = held !== undefined && !agrees(check, held);',
    to: 'const disagrees = held !== undefined && agrees(check, held);',
  },
  {
    title: 'digests are compared the wrong way round',
    file: 'gateway/core/peers/peer-hints.ts',
    from: 'if (!own || own.hash === row.hash) continue;',
    to: 'if (!own || own.hash !== row.hash) continue;',
  },
  {
    title: 'who holds nothing has no digest',
    file: 'gateway/core/peers/held-digest.ts',
    from: 'if (count === 0 && asked === 0)',
    to: 'if (count === 0)',
  },
  {
    title: 'a digest forgets what was there before',
    file: 'gateway/core/peers/held-digest.ts',
    from: 'if (before !== undefined) toggle(row, name.key, before);',
    to: '',
  },
  {
    title: 'a late word undoes what another one told',
    file: 'gateway/core/peers/peer-hints.ts',
    from: 'if (waiting?.from === from) this.#checks.delete(key);',
    to: 'this.#checks.delete(key);',
  },
  {
    title: 'no bound for one name',
    file: 'gateway/core/peers/peer-hints.ts',
    from: 'if (this.#wasAsked(key, SAME_NAME_INTERVAL_MS, nowMs)) return true;',
    to: '',
  },
  {
    title: 'no bound for all questions together',
    file: 'gateway/core/session/rate-bound.ts',
    from: 'if (this.#left < count) return false;',
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
    title: 'TTLs are counted by the time of day',
    file: 'authorities/core/sources/delta-stream.ts',
    from: 'const expiresAtMs = ttlMs === undefined ? undefined : nowMs + ttlMs;',
    to: 'const expiresAtMs = ttlMs === undefined ? undefined : Date.now() + ttlMs;',
  },
  {
    title: 'what expired is not removed at clients',
    file: 'authorities/core/failover/group-resources.ts',
    from: "this.#events.push({ kind: 'removed', typeUrl, name, status: undefined });",
    to: '',
  },
  {
    title: 'what expired here is not asked for again',
    file: 'authorities/core/sources/delta-stream.ts',
    from: `this.#pending.unsubscribe(subscription);
      this.#pending.subscribe(subscription);
      return undefined;`,
    to: 'return undefined;',
  },
  {
    title: 'a removal that is held back ends the TTL',
    file: 'authorities/core/failover/failover-group.ts',
    from: "kind === 'removed' ? endsMs !== undefined : ",
    to: '',
  },
  {
    title: 'a source that is left takes its TTLs with it',
    file: 'authorities/core/failover/failover-group.ts',
    from: 'if (!wanted) this.#view.keepEnds(index, candidate);',
    to: '',
  },
  {
    title: 'what was kept of a collection stays when its primary answers late',
    file: 'authorities/core/failover/group-resources.ts',
    from: `      demand.isWhole = true;
      if (index === 0) this.#question(this.#covered(demand), nowMs);`,
    to: 'demand.isWhole = true;',
  },
  {
    title: 'a file that is half written loses what it said',
    file: 'authorities/core/sources/good-files.ts',
    from: 'if (!parsed.ok) return parsed.problems;',
    to: 'if (!parsed.ok) {\n      this.#lastGood.set(path, { text, resources: [] });\n      return parsed.problems;\n    }',
  },
  {
    title: 'a file that was never good proves its names absent',
    file: 'authorities/core/sources/good-files.ts',
    from: 'const isWhole = files.every(({ path }) => this.#lastGood.has(path));',
    to: 'const isWhole = true;',
  },
  {
    title: 'a directory that is not there is an empty one',
    file: 'authorities/core/sources/file-source.ts',
    from: 'this.#unreadable = this.#liveSinceMs === undefined;',
    to: 'this.handleLoaded({ resources: [], nowMs: this.#liveSinceMs ?? 0 });',
  },
  {
    title: 'what vanished from a directory is kept',
    file: 'authorities/core/sources/file-source.ts',
    from: 'if (isGone) this.contents.remove(typeUrl, projection.name, false);',
    to: 'if (isGone) continue;',
  },
  {
    title: 'a damaged state file is believed',
    file: 'gateway/state-file/collection-file.ts',
    from: "if (text !== [...written].join(''))",
    to: "if (text === '')",
  },
  {
    title: 'times of the state file are read by another clock',
    file: 'gateway/state-file/collection-file.ts',
    from: 'fromWallClock: (atMs) => Math.min(nowMs, atMs - aheadMs),',
    to: 'fromWallClock: (atMs) => atMs - 3 * 3_600_000,',
  },
];
