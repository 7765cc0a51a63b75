/** Bugs to plant in what a process does with content of an earlier one. */
import type { Mutation } from './mutation.js';

const LAST_KNOWN = 'authorities/core/failover/last-known.ts';
const RESOURCES = 'authorities/core/failover/group-resources.ts';

export const CONTENT_MUTATIONS: readonly Mutation[] = [
  {
    title: 'content: what the source of a later process lacks stays on disk',
    file: RESOURCES,
    from: 'this.#lastKnown?.handleAbsent(typeUrl, name);',
    to: '',
    unitTest: {
      file: 'test/unit/authorities/core/failover/last-known.test.ts',
      title: 'what the source of a later process lacks is gone for the one after it (invariant 3)',
    },
  },
  {
    title: 'content: lists outlive the process',
    file: LAST_KNOWN,
    from: '!isListType(typeUrl) && !redirect',
    to: '!redirect',
  },
  {
    title: 'content: redirects outlive the process',
    file: LAST_KNOWN,
    from: '!isListType(typeUrl) && !redirect',
    to: '!isListType(typeUrl)',
    unitTest: {
      file: 'test/unit/authorities/core/failover/last-known.test.ts',
      title:
        'secrets, lists, redirects and content with a TTL do not outlive the process (invariants 13, 19, 20; seeds 477, 8305)',
    },
  },
  {
    title: 'content: a part of a collection is complete',
    file: RESOURCES,
    from: "demand.restored = isWhole ? 'whole' : 'some';",
    to: "demand.restored = 'whole';",
    unitTest: {
      file: 'test/unit/authorities/core/failover/last-known.test.ts',
      title:
        'a collection is not complete if an earlier process had only single members of it (seed 8467)',
    },
  },
  {
    title: 'content: a remembered removal is sent on the word of the disk',
    file: 'gateway/core/cache/resource-cache.ts',
    from: 'glob.collection.handleComplete(false, this.isCurrent(typeUrl, globName));',
    to: 'glob.collection.handleComplete(false, true);',
  },
  {
    title: 'content: a source that lacks all of it is believed',
    file: 'authorities/core/failover/removal-hold.ts',
    from: ' || going >= total',
    to: '',
    unitTest: {
      file: 'test/unit/authorities/core/failover/last-known.test.ts',
      title:
        'a source that returns without any of the restored content has most likely just started: the deletion guard waits, however few names there are (seed 5698)',
    },
  },
  {
    title: 'content: the removal of a resource does not reach the disk',
    file: RESOURCES,
    from: 'this.#lastKnown?.drop(typeUrl, name);',
    to: '',
    unitTest: {
      file: 'test/unit/authorities/core/failover/last-known.test.ts',
      title:
        'the source that returns changes and removes what it has changed and removed (invariant 3)',
    },
  },
];
