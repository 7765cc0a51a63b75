/** Bugs to plant in the code for state-of-the-world clients and old-style names. */
import type { Mutation } from './mutation.js';

const GATEWAY = 'gateway/core';

export const SOTW_MUTATIONS: readonly Mutation[] = [
  {
    title: 'sotw: a set is sent while some of its names are unknown',
    file: `${GATEWAY}/sotw/all-required-responses.ts`,
    from: 'if (this.#subscriptions.unsettled.size > 0) return this.#unsettledUntilMs(nowMs);',
    to: '',
  },
  {
    title: 'sotw: an unavailable source counts as an answer',
    file: `${GATEWAY}/cache/entries.ts`,
    from: "return reportedOf(state) !== 'unknown';",
    to: "return state.kind !== 'waiting';",
  },
  {
    title: 'sotw: half a collection counts as a whole one',
    file: `${GATEWAY}/sotw/all-required-responses.ts`,
    from: 'if (!collection.complete || collection.isDoubted) {',
    to: 'if (!collection.complete && collection.members.size === 0) {',
  },
  {
    title: 'sotw: a removed cluster stays in the segments of its collection',
    file: `${GATEWAY}/cache/whole-set.ts`,
    from: 'segment.delete(key);\n    this.#dissolveSparse(segment);',
    to: '',
  },
  {
    title: 'sotw: a segment is not encoded again when a member changes',
    file: `${GATEWAY}/cache/whole-set.ts`,
    from: 'this.#bare = undefined;\n    this.#wrapped = undefined;',
    to: '',
  },
  {
    title: 'sotw: a cluster of a segment that is subscribed by its name too is in the set twice',
    file: `${GATEWAY}/sotw/set-draft.ts`,
    from: '!this.#named.has(segment) && limit.takesEach(segment, typeUrl)',
    to: 'limit.takesEach(segment, typeUrl)',
  },
  {
    title: 'sotw: a NACK is ignored',
    file: `${GATEWAY}/sotw/sotw-session.ts`,
    from: "if (responseNonce === '') return;",
    to: "if (responseNonce === '' || errorDetail) return;",
  },
  {
    title: 'sotw: a resume skips a changed set',
    file: `${GATEWAY}/sotw/all-required-responses.ts`,
    from: 'const hasAll = resumed === set.versionInfo && this.#subscriptions.names.size === 0;',
    to: "const hasAll = resumed !== '' && this.#subscriptions.names.size === 0;",
  },
  {
    title: 'sotw: a resume of a partial type accepts any version',
    file: `${GATEWAY}/sotw/selective-responses.ts`,
    from: 'if (!isWhole || version !== resumed) return false;',
    to: 'if (!isWhole) return false;',
  },
  {
    title: 'sotw: an unsubscribed name stays in the version',
    file: `${GATEWAY}/sotw/sotw-subscriptions.ts`,
    from: 'this.#versionCoversMore ||= known.sent !== undefined;',
    to: 'this.#versionCoversMore ||= false;',
  },
  {
    title: 'sotw: a resubscribed name is not resent',
    file: `${GATEWAY}/sotw/sotw-subscriptions.ts`,
    from: 'if (known.mark === mark) continue;\n      this.names.delete(key);',
    to: 'if (known.mark === mark || known.sent) continue;\n      this.names.delete(key);',
  },
  {
    title: 'sotw: removals take effect at once',
    file: `${GATEWAY}/sotw/all-required-responses.ts`,
    from: 'if (release) this.#release(found);',
    to: 'this.#release(found);',
  },
  {
    title: 'sotw: removals do not wait for the quiet time',
    file: `${GATEWAY}/sotw/sotw-session.ts`,
    from: 'return nowMs < quietMs ? quietMs : undefined;',
    to: 'return nowMs < quietMs - QUIET_MS ? quietMs : undefined;',
  },
  {
    title: 'sotw: a changed cluster is not followed by its assignment',
    file: `${GATEWAY}/sotw/sotw-session.ts`,
    from: 'if (edsKey !== undefined) endpoints?.handleClusterSent(edsKey);',
    to: "if (edsKey === undefined) endpoints?.handleClusterSent(edsKey ?? '');",
  },
  {
    title: 'sotw: no placeholder for an unavailable cluster',
    file: `${GATEWAY}/sotw/all-required-responses.ts`,
    from: 'known.placeholder = placeholderCluster(known.entry.name);',
    to: '',
  },
  {
    title: 'sotw: a placeholder returns when its content is removed',
    file: `${GATEWAY}/sotw/all-required-responses.ts`,
    from: 'known.placeholder = undefined;',
    to: '',
  },
  {
    title: 'sotw: a member unsubscribed as a name is forgotten',
    file: `${GATEWAY}/sotw/all-required-responses.ts`,
    from: 'this.#subscriptions.heirOf(name)?.lingering.set(name.key, { projection, wasSent });',
    to: '',
  },
  {
    title: 'sotw: a member of a glob is forgotten when it is subscribed by name',
    file: `${GATEWAY}/sotw/sotw-subscriptions.ts`,
    from: 'this.#takeLingering(known);',
    to: '',
  },
  {
    title: 'old-style: node ids do not separate node groups',
    file: 'protos/node-scope.ts',
    from: "...(fields.includes('id') ? { id: node.id ?? '' } : {}),",
    to: "...(fields.includes('id') ? { id: 'p' } : {}),",
  },
  {
    title: 'old-style: the key of a name drops its node group',
    file: 'protos/old-style-name.ts',
    from: 'key: `${MARK}${scope}${MARK}${text}`,',
    to: 'key: `${MARK}${MARK}${text}`,',
  },
  {
    title: 'old-style: all node groups share one stream',
    file: 'authorities/core/sources/source-ids.ts',
    from: 'return scope === COMMON_SCOPE ? name : `${name}\\n${scope}`;',
    to: 'return scope === COMMON_SCOPE ? name : `${name}\\n`;',
  },
  {
    title: 'old-style: the last entry that has a name serves it',
    file: 'authorities/core/node-groups/node-group.ts',
    from: 'const [first, ...others] = this.#servedByEach(typeUrl, name);',
    to: 'const [first, ...others] = [...this.#servedByEach(typeUrl, name)].reverse();',
  },
  {
    title: 'old-style: a deletion by one entry removes a name that the next entry has',
    file: 'authorities/core/node-groups/node-group.ts',
    from: 'if (!first) return [event];',
    to: 'if (!first || first.group !== group) return [event];',
  },
  {
    title: 'old-style: a shadowed change is served',
    file: 'authorities/core/node-groups/node-group.ts',
    from: 'if (first?.group !== group) {',
    to: 'if (first === undefined) {',
  },
  {
    title: 'old-style: the first entry alone proves absence',
    file: 'authorities/core/node-groups/node-group.ts',
    from: 'if (all.includes(undefined)) return [];',
    to: '',
  },
  {
    title: 'a cluster that changed and changed back is not followed by its assignment',
    file: `${GATEWAY}/delta/delta-subscriptions.ts`,
    from: 'if (isDue && known.held !== NOT_HELD) known.held = MAYBE_HELD;',
    to: '',
  },
  {
    title: 'sotw: a cluster that was removed while its client was away goes before its routes',
    file: `${GATEWAY}/sotw/all-required-responses.ts`,
    from: 'return content && this.#subscriptions.limit.admit(content);',
    to: 'return undefined;',
    unitTest: {
      file: 'test/unit/gateway/core/sotw/removed-while-away.test.ts',
      title: 'it goes a second later if nothing replaces it (GRPC 9)',
    },
  },
  {
    title: 'sotw: so does a member of a collection',
    file: `${GATEWAY}/sotw/all-required-responses.ts`,
    from: 'this.#keepRemoved(glob);',
    to: '',
    unitTest: {
      file: 'test/unit/gateway/core/sotw/removed-while-away.test.ts',
      title:
        'a member that was removed while its client was away goes after the route was replaced (GRPC 9)',
    },
  },
  {
    title: 'sotw: a member that came and went while its client was away reaches it',
    file: `${GATEWAY}/cache/collection.ts`,
    from: 'if (!last || !mayHold(last.membership, sentSeq, removedSeq)) continue;',
    to: 'if (!last) continue;',
    unitTest: {
      file: 'test/unit/gateway/core/sotw/removed-while-away.test.ts',
      title: 'a member that came and went while a client was away never reaches it',
    },
  },
  {
    title: 'sotw: a member that its client knows to be gone comes back',
    file: `${GATEWAY}/cache/sent-versions.ts`,
    from: 'this.#places.set(version, place);',
    to: 'this.#places.set(version, { ...place, removedSeq: -1 });',
    unitTest: {
      file: 'test/unit/gateway/core/sotw/removed-while-away.test.ts',
      title: 'a member that a client knows to be gone does not come back (ENVOY 6)',
    },
  },
];
