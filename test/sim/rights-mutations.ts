/** Bugs for mutate.ts, in the rules for clients. */
import type { Mutation } from './mutation.js';

export const RIGHTS_MUTATIONS: readonly Mutation[] = [
  {
    title: 'a glob is allowed without its whole directory',
    file: 'gateway/core/rights/rights.ts',
    from: "return id === path.id && !(isGlob && id.endsWith('*'));",
    to: 'return id === path.id || (isGlob && path.id.startsWith(id.slice(0, -1)));',
  },
  {
    title: 'a revoked right takes nothing back',
    file: 'gateway/core/rights/granted-cache.ts',
    from: "if (verdict.kind === 'granted') return entry.denial === undefined;",
    to: "if (verdict.kind === 'granted' || !entry.denial) return entry.denial === undefined;",
  },
  {
    title: 'a granted right brings nothing until the client asks again',
    file: 'gateway/core/rights/granted-cache.ts',
    from: "if (verdict.kind === 'granted') return entry.denial === undefined;",
    to: "if (verdict.kind === 'granted') return true;",
  },
  {
    title: 'a member that was removed and came back stays after the right to its glob',
    file: 'gateway/core/cache/collection.ts',
    from: '(former !== undefined && former.joinedSeq <= sentSeq && former.removedSeq > removedSeq);',
    to: 'false;',
  },
  {
    title: 'a collection whose right came and went counts as never answered',
    file: 'gateway/core/sotw/sotw-subscriptions.ts',
    from: 'const wasIncluded = glob.included || glob.wasIncluded;',
    to: 'const wasIncluded = glob.included;',
  },
  {
    title: 'members of a revoked glob stay with clients',
    file: 'gateway/core/delta/delta-subscriptions.ts',
    from: 'this.#possiblyHeld.noteSent(glob.entry.collection.glob.key, sentMembersOf(glob));',
    to: '',
  },
];
