import t from 'tap';
import {
  GoodFiles,
  type GoodLoad,
  type ParsedText,
} from '../../../../../authorities/core/sources/good-files.js';
import { THING } from '../../../../support/federation-driver.js';

/** Each word of a document is a resource name; `!` makes the document invalid; `|` separates documents. */
function parse(text: string, path: string): ParsedText {
  const documents = text.split('|');
  const good = documents.filter((document) => !document.includes('!'));
  const names = good.flatMap((document) => document.split(' ')).filter((name) => name !== '');
  const body = Buffer.from(text);
  const resources = names.map((name) => ({ name, typeUrl: THING, body }));
  if (good.length === documents.length) return { ok: true, resources };
  return { ok: false, problems: [`${path}: ${text}`], resources };
}

const load = (files: GoodFiles, texts: Readonly<Record<string, string>>): GoodLoad =>
  files.load(Object.entries(texts).map(([path, text]) => ({ path, text })));
/** In the order of the alphabet. */
const namesOf = ({ resources }: GoodLoad): string =>
  resources
    .map(({ name }) => name)
    .sort()
    .join(' ');

t.test('a half-written file keeps its last good content until it is readable or deleted', (t) => {
  const files = new GoodFiles(parse);
  t.equal(namesOf(load(files, { one: 'a b', two: 'c' })), 'a b c');
  const half = load(files, { one: 'a!', two: 'c d' });
  t.equal(namesOf(half), 'a b c d');
  t.strictSame(half.problems, ['one: a!']);
  t.equal(half.isWhole, true, 'every file was good once');
  t.equal(namesOf(load(files, { one: 'a', two: 'c' })), 'a c');
  t.equal(namesOf(load(files, { two: 'c' })), 'c');
  t.equal(namesOf(load(files, { one: '!', two: 'c' })), 'c', 'a deleted file is forgotten');
  t.end();
});

t.test('a file that becomes empty keeps its content, since it may be about to be written', (t) => {
  const files = new GoodFiles(parse);
  load(files, { one: 'a b', two: 'c' });
  const emptied = load(files, { one: '', two: 'c' });
  t.equal(namesOf(emptied), 'a b c');
  t.match(emptied.problems, [/^one: is empty.*write \[\] into it/]);
  t.equal(emptied.isWhole, true);
  t.equal(namesOf(load(files, { one: 'a', two: 'c' })), 'a c');
  t.equal(namesOf(load(files, { one: ' ', two: 'c' })), 'c', 'blanks are content');
  t.strictSame(load(files, { one: '', two: 'c' }).problems, [], 'it has nothing to lose');
  t.end();
});

t.test('a directory with a file that was never good is incomplete', (t) => {
  const files = new GoodFiles(parse);
  const first = load(files, { one: '!', two: 'c' });
  t.equal(namesOf(first), 'c');
  t.equal(first.isWhole, false);
  const unread = files.load([
    { path: 'one', problem: 'one: EACCES' },
    { path: 'two', text: 'c' },
  ]);
  t.strictSame([unread.isWhole, unread.problems], [false, ['one: EACCES']]);
  t.equal(load(files, { one: '', two: 'c' }).isWhole, true);
  t.end();
});

t.test('of a name in two files the first counts, and the problem is reported', (t) => {
  const loaded = load(new GoodFiles(parse), { one: 'a', two: 'a b' });
  t.equal(namesOf(loaded), 'a b');
  t.equal(String(loaded.resources[0]?.body), 'a');
  t.strictSame(loaded.problems, ['two: a is in one, too, and that one counts (remove one)']);
  t.end();
});

for (const [what, broken] of [
  ['is invalid', { path: 'one', text: 'a!' }],
  ['is empty', { path: 'one', text: '' }],
  ['cannot be read', { path: 'one', problem: 'one: EACCES' }],
] as const) {
  t.test(`content of a file that ${what} yields to a file that has the name`, (t) => {
    const files = new GoodFiles(parse);
    load(files, { one: 'a b' });
    const moved = files.load([broken, { path: 'two', text: 'a' }]);
    t.equal(namesOf(moved), 'a b');
    t.equal(String(moved.resources.find(({ name }) => name === 'a')?.body), 'a');
    t.equal(moved.problems.length, 1, 'only the broken file is a problem');
    t.equal(namesOf(files.load([broken])), 'a b', 'it is still known when the other file goes');
    const mended = load(files, { one: 'a b', two: 'a' });
    t.equal(String(mended.resources[0]?.body), 'a b', 'the first file counts when it is mended');
    t.end();
  });
}

t.test('an invalid document costs only itself, and none of its resources is removed', (t) => {
  const files = new GoodFiles(parse);
  const first = load(files, { one: 'a|!b' });
  t.equal(namesOf(first), 'a', 'the valid document is served');
  t.equal(first.isWhole, false, 'the other one may have any name');
  t.equal(namesOf(load(files, { one: 'a|b c' })), 'a b c');
  const half = load(files, { one: 'a d|!b' });
  t.equal(namesOf(half), 'a b c d', 'the last good content of the invalid document stays');
  t.equal(String(half.resources[0]?.body), 'a d|!b', 'the valid document is the new one');
  t.strictSame(half.problems, ['one: a d|!b']);
  t.equal(half.isWhole, true);
  t.strictSame(load(files, { one: 'a d|!b' }).problems, half.problems, 'as long as it is invalid');
  t.equal(namesOf(load(files, { one: 'd' })), 'd');
  t.end();
});

t.test('files of a directory that cannot be listed any more keep their content', (t) => {
  const files = new GoodFiles(parse);
  load(files, { 'd/one': 'a', 'd2/two': 'b', three: 'c' });
  const closed = files.load([{ path: 'three', text: 'c d' }], ['d']);
  t.equal(namesOf(closed), 'a c d', 'd2 is another directory, and its file is gone');
  t.equal(closed.isWhole, true);
  const moved = files.load([{ path: 'three', text: 'a c' }], ['d']);
  t.strictSame([namesOf(moved), moved.problems], ['a c', []], 'content that moved counts');
  t.equal(String(moved.resources[0]?.body), 'a c');
  t.equal(namesOf(load(files, { three: 'c' })), 'c', 'the directory is open again, and empty');
  const never = files.load([{ path: 'three', text: 'c' }], ['e']);
  t.strictSame([namesOf(never), never.isWhole], ['c', false], 'the content of e is unknown');
  t.end();
});
