import t from 'tap';
import {
  globKeyOf,
  isMemberOf,
  isOldStyle,
  oldStyleName,
  parseResourceName,
  wireText,
} from '../../../protos/resource-name.js';

t.test('an old-style name is unchanged on the wire and distinct from every other scope', (t) => {
  const here = oldStyleName('edge', 'backend');
  const there = oldStyleName('mesh', 'backend');
  t.equal(wireText(here.key), 'backend');
  t.not(here.key, there.key);
  t.ok(isOldStyle(here));
  t.end();
});

t.test('an old-style name may contain any character, even a line break', (t) => {
  const name = oldStyleName('edge', 'outbound|80||x\n*');
  t.equal(wireText(name.key), 'outbound|80||x\n*');
  t.notOk(name.isGlob);
  t.end();
});

t.test('`*` is the wildcard, and names of its scope may be its members', (t) => {
  const wildcard = oldStyleName('edge', '*');
  t.ok(wildcard.isGlob);
  t.equal(globKeyOf(wildcard), wildcard.key);
  t.ok(isMemberOf(oldStyleName('edge', 'a/b'), wildcard));
  t.notOk(isMemberOf(oldStyleName('mesh', 'a/b'), wildcard));
  for (const scope of ['', 'edge', '', 'mesh']) {
    t.equal(globKeyOf(oldStyleName(scope, 'a')), oldStyleName(scope, '*').key, scope);
  }
  t.end();
});

t.test('an xdstp name is not an old-style name, and its key is its text', (t) => {
  const parsed = parseResourceName('xdstp://a/T/x');
  if (!parsed.ok) throw new Error(parsed.error.message);
  t.notOk(isOldStyle(parsed.value));
  t.equal(wireText(parsed.value.key), 'xdstp://a/T/x');
  t.end();
});
