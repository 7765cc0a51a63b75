/** Bugs to plant in the code that tells clients of old-style names apart. */
import type { Mutation } from './mutation.js';

const SCOPE = 'protos/node-scope.ts';
const IDENTITY = 'authorities/core/sources/client-identity.ts';

export const GROUP_MUTATIONS: readonly Mutation[] = [
  {
    title: 'group: the key lacks the forwarded header',
    file: SCOPE,
    from: 'JSON.stringify(headers.map((key) => values.headers?.get(key) ?? null)),',
    to: 'JSON.stringify(headers),',
  },
  {
    title: 'group: the source does not get the header',
    file: IDENTITY,
    from: '(given.get(key) ?? []).map((value) => [key, value] as const),',
    to: '(given.get(`${key}?`) ?? []).map((value) => [key, value] as const),',
  },
  {
    title: 'group: a null field of the Node counts as missing',
    file: SCOPE,
    from: 'const keys = metadataKeysOf(fields).filter((key) => Object.hasOwn(has, key));',
    to: 'const keys = metadataKeysOf(fields).filter((key) => (has[key] ?? null) !== null);',
  },
  {
    title: 'group: the key takes a missing field of the Node for null',
    file: SCOPE,
    from: '...(without.length > 0 ? { without: without.sort() } : {}),',
    to: '...(without.length > 0 ? { metadata: Object.fromEntries(without.map((key) => [key, null])) } : {}),',
  },
  {
    title: 'group: a null field makes the Node unreadable, and ends the stream',
    file: 'protos/node-codec.ts',
    from: 'entries.push([key, valueAt === -1 ? null : readValue(reader, depth)]);',
    to: "const value = readValue(reader, depth); if (value === null) throw new RangeError('null'); entries.push([key, value]);",
  },
];
