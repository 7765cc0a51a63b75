/** Names and other texts with a meaning for readers of messages. */
import { TYPE_URL } from '../../protos/type-urls.js';

export const THING = 'type.googleapis.com/test.v1.Thing';
export const THINGS = `${THING}Collection`;

export const name = (authority: string, id: string, type = 'test.v1.Thing'): string =>
  `xdstp://${authority}/${type}/${id}`;

/** Names of every kind, and texts that are almost names. */
export const NAMES: readonly string[] = [
  ...['1', '2', '3', 'dir/4', '*', 'dir/*', '%2A', '5?a=b&c=d', '5?c=d&a=b', '6%2Fx'].map((id) =>
    name('a', id),
  ),
  ...['1', '2', '*'].map((id) => name('b', id)),
  name('', '1'),
  name('other', '1'),
  name('a', 'list', 'test.v1.ThingCollection'),
  `${name('a', '1')}#alt=${name('b', '1')}`,
  `${name('a', '1')}%23alt=${name('b', '1')}`,
  `${name('a', 'list', 'test.v1.ThingCollection')}#entry=one`,
  `${name('a', '1')}#alt=${name('b', '1')}%23alt=${name('a', '2')}`,
  'xdstp://',
  'xdstp:',
  'xdstp://a/T',
  '*',
  'old-style',
  '',
  '__proto__',
  '\n',
  `xdstp://a/test.v1.Thing/${'long/'.repeat(420)}x`,
];

export const TYPES: readonly string[] = [
  THING,
  THINGS,
  ...Object.values(TYPE_URL),
  '',
  'T',
  '__proto__',
];

/** Nonces of both sides, versions, and substitutes for any text. */
export const TEXTS: readonly string[] = [
  '1',
  '2',
  '3',
  '4',
  '7',
  'v1',
  'v2',
  'v3',
  '0',
  '-1',
  'constructor',
];

export const ALL_WORDS: readonly string[] = [...NAMES, ...TYPES, ...TEXTS];

export const bytesOf = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));
export const ALL_WORD_BYTES: readonly Uint8Array[] = ALL_WORDS.map(bytesOf);
