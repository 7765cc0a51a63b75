/** Requests a name or list again from its sources, with all names that it redirects to. */
import { listTypeOf } from '../../../protos/list-collection.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import type { Lists } from './lists.js';
import type { Redirects } from './redirects.js';
import type { Watches } from '../watches.js';

export interface WhatIsWatched {
  readonly watches: Watches;
  readonly lists: Lists;
  readonly redirects: Redirects;
}

/** @returns whether the name is watched. */
export function revalidate(
  typeUrl: string,
  name: ResourceName,
  { watches, lists, redirects }: WhatIsWatched,
  nowMs: number,
): boolean {
  const list = lists.listOf(typeUrl, name);
  const [type, asked] = list ? [listTypeOf(typeUrl), list] : [typeUrl, name];
  const watched = watches.get(type, asked.key);
  if (!watched?.group) return false;
  for (const one of [asked, ...redirects.targetsOf(type, asked)]) {
    watches.get(type, one.key)?.group?.revalidate(type, one, nowMs);
  }
  return true;
}
