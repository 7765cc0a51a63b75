import fc from 'fast-check';
import t from 'tap';
import { NameReader, readAskedName } from '../../../../../gateway/core/session/asked-name.js';
import { oldStyleName, type ResourceName } from '../../../../../protos/resource-name.js';
import { THING, thing } from '../../../../support/federation-driver.js';

const a = thing('cloud', 'a');
const b = thing('onprem', 'b');
const list = 'xdstp://cloud/test.v1.ThingCollection/l';
const LISTS = `${THING}Collection`;

/** The key, with a prefix for a collection; or the code of the refusal. */
function asked(text: string, typeUrl = THING): string {
  const read = readAskedName(typeUrl, text);
  if (!read.ok) return `refused ${read.status.code}`;
  return `${read.name.isGlob ? 'all of ' : ''}${read.name.key}`;
}

t.test('names, globs, lists and entries are distinguished', (t) => {
  t.equal(asked(a), a);
  t.equal(asked(`${a}?b=2&a=1`), `${a}?a=1&b=2`, 'canonical');
  t.equal(asked(`${a}#`), a, 'an empty fragment is none');
  t.equal(asked(thing('cloud', 'g/*')), `all of ${thing('cloud', 'g/*')}`);
  t.equal(asked(list), `all of ${list}`);
  t.equal(asked(list, LISTS), list, 'the list itself');
  t.equal(asked(`${list}#entry=x`), `${list}#entry=x`, 'one resource');
  t.end();
});

t.test('directives stay as they were written, after the canonical name', (t) => {
  const spelling = `alt=${b.replace('/b', '/%62')}`;
  t.equal(asked(`${a}?b=2&a=1#${spelling}`), `${a}?a=1&b=2#${spelling}`);
  t.equal(asked(`${list}#alt=${b}`), `all of ${list}#alt=${b}`, 'a list with an alternative');
  t.equal(asked(`${thing('cloud', 'g/*')}#alt=${b}`), `all of ${thing('cloud', 'g/*')}`);
  t.end();
});

t.test('names escaped by Envoy are read as intended (ENVOY 10)', (t) => {
  t.equal(asked(`${a}%23alt=${b}`), `${a}#alt=${b}`);
  t.equal(asked(`${list}%23entry=x`), `${list}#entry=x`);
  t.equal(asked(`${a}%23other`), `${a}%23other`, 'a name may contain a #');
  t.end();
});

t.test('a name that cannot be served is refused by itself, with a code', (t) => {
  t.equal(asked('plain'), 'refused 12');
  t.equal(asked('*'), 'refused 12');
  t.equal(asked('xdstp:bad'), 'refused 3');
  t.equal(asked(`${a}#alt=${b},alt=${b}`), 'refused 3');
  t.equal(asked(`${a}#other=1`), 'refused 3');
  t.end();
});

t.test('an entry of a non-list is refused, however it is written', (t) => {
  t.equal(asked(`${a}#entry=x`), 'refused 3');
  t.equal(asked(`${a}%23entry=x`), 'refused 3', 'as Envoy writes it');
  t.equal(asked(`${a}#alt=${b},entry=x`), 'refused 3');
  t.equal(asked(`${thing('cloud', 'g/*')}#entry=x`), 'refused 3', 'a glob');
  t.equal(asked(`${list}#entry=x`, LISTS), 'refused 3', 'subscribed as a list');
  t.equal(asked(`${list.replace('/l', '/*')}#entry=x`), 'refused 3', 'of many lists');
  t.equal(asked(`${list}#entry=x`, ''), `${list}#entry=x`, 'the admin side gives no type');
  t.equal(asked(`${a}#entry=x`, ''), 'refused 3');
  t.end();
});

t.test('no text makes it throw, and reading its result again gives the same', (t) => {
  const part = fc.constantFrom(a, b, list, '#alt=', '%23alt=', ',entry=', '#entry=', '?k=v', '%2C');
  const text = fc.oneof(
    fc.array(part, { maxLength: 6 }).map((parts) => parts.join('')),
    fc.string({ unit: 'binary' }).map((junk) => `xdstp://${junk}`),
  );
  fc.assert(
    fc.property(text, (one) => {
      const read = readAskedName(THING, one);
      return !read.ok || asked(read.name.key) === asked(one);
    }),
    { numRuns: 2_000 },
  );
  t.end();
});

t.test('a name that another client subscribes to is read as if it were the first', (t) => {
  const read = (text: string) => readAskedName(THING, text);
  const known = new Map<string, ResourceName>();
  const texts = [a, `${a}?b=2&a=1`, `${a}?a=1&b=2`, `${a}#alt=${b}`, `${a}%23alt=${b}`, `${a}%23x`];
  for (const text of texts) {
    const one = read(text);
    if (one.ok) known.set(one.name.key, one.name);
  }
  const reader = new NameReader(
    () => ({ kind: 'not_served' }),
    (_typeUrl, key) => known.get(key),
  );
  for (const text of [...texts, ...known.keys()])
    t.strictSame(reader.read(THING, text), read(text));
  t.equal(reader.read(THING, a).ok && known.get(a), known.get(a));
  t.end();
});

t.test('the key of a name of another node group does not lead to that name (invariant 1)', (t) => {
  const theirs = oldStyleName('theirs', 'secret');
  const reader = new NameReader(
    () => ({ kind: 'scope', scope: 'ours' }),
    (_typeUrl, key) => (key === theirs.key ? theirs : undefined),
  );
  const read = reader.read(THING, theirs.key);
  t.equal(read.ok && read.name.authority, 'ours');
  t.end();
});
