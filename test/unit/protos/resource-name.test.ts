import fc from 'fast-check';
import t from 'tap';
import {
  escapedDirectivesOf,
  formatResourceLocator,
  globKeyOf,
  isMemberOf,
  isXdstp,
  makeResourceName,
  maxNameBytes,
  parseResourceLocator,
  parseResourceName,
  withAuthorityAndId,
} from '../../../protos/resource-name.js';
import { mayBeGlob } from '../../../protos/glob.js';
import type { ResourceLocator, ResourceName } from '../../../protos/resource-name.js';

const cluster = 'envoy.config.cluster.v3.Cluster';

function nameOf(text: string): ResourceName {
  const parsed = parseResourceName(text);
  if (!parsed.ok) {
    throw new Error(`${text}: ${parsed.error.code} at ${parsed.error.at}`);
  }
  return parsed.value;
}

function locatorOf(text: string): ResourceLocator {
  const parsed = parseResourceLocator(text);
  if (!parsed.ok) {
    throw new Error(`${text}: ${parsed.error.code} at ${parsed.error.at}`);
  }
  return parsed.value;
}

/** The written form of a name, and its canonical text. */
const spellings: readonly (readonly [written: string, key: string])[] = [
  ['xdstp://a/T/x', 'xdstp://a/T/x'],
  ['xdstp:///T/x', 'xdstp:///T/x'],
  ['xdstp://A:80/T/X', 'xdstp://A:80/T/X'],
  ['xdstp://[::1]:80/T/x', 'xdstp://[::1]:80/T/x'],
  ['xdstp://%61%2fb/T/x', 'xdstp://a%2Fb/T/x'],
  ['xdstp://a/T/e%64ge/m', 'xdstp://a/T/edge/m'],
  ['xdstp://a/T/edge%2Fl', 'xdstp://a/T/edge/l'],
  ['xdstp://a/T/%3f%25%23%5b%5d', 'xdstp://a/T/%3F%25%23%5B%5D'],
  ['xdstp://a/T/[x]', 'xdstp://a/T/%5Bx%5D'],
  ['xdstp://a/T/a b+c', 'xdstp://a/T/a%20b+c'],
  ['xdstp://a/T/ä%C3%A4😀', 'xdstp://a/T/%C3%A4%C3%A4%F0%9F%98%80'],
  ['xdstp://a/T//x//', 'xdstp://a/T//x//'],
  ['xdstp://a/T/../:x&=', 'xdstp://a/T/../:x&='],
  ['xdstp://a/T/*', 'xdstp://a/T/*'],
  ['xdstp://a/T/edge%2F*', 'xdstp://a/T/edge/*'],
  ['xdstp://a/T/edge/%2A', 'xdstp://a/T/edge/%2A'],
  ['xdstp://a/T/edge/%2a/x%2A', 'xdstp://a/T/edge/*/x*'],
  ['xdstp://a/T/x?', 'xdstp://a/T/x'],
  ['xdstp://a/T/x?&b=1&&a=2&', 'xdstp://a/T/x?a=2&b=1'],
  ['xdstp://a/T/x?m', 'xdstp://a/T/x?m='],
  ['xdstp://a/T/x?a=b=c', 'xdstp://a/T/x?a=b%3Dc'],
  ['xdstp://a/T/x?p=a+b', 'xdstp://a/T/x?p=a%20b'],
  ['xdstp://a/T/x?p=a%2Bb', 'xdstp://a/T/x?p=a%2Bb'],
  ['xdstp://a/T/x?p=a%26b%3d', 'xdstp://a/T/x?p=a%26b%3D'],
  ['xdstp://a/T/x?p={"k": 1}/?[]', 'xdstp://a/T/x?p={"k":%201}/?%5B%5D'],
  ['xdstp://a/T/x?xds.node.id=n1&b=1', 'xdstp://a/T/x?b=1&xds.node.id=n1'],
  ['xdstp://a/T/x?😀=1&\uff61=2&ä=3', 'xdstp://a/T/x?%C3%A4=3&%EF%BD%A1=2&%F0%9F%98%80=1'],
];

t.test('every spelling has one canonical text (TP1 "Normalization", RFC 3986)', (t) => {
  for (const [written, key] of spellings) {
    t.equal(nameOf(written).key, key, written);
    t.same(nameOf(key), nameOf(written), `${key} has the same meaning`);
  }
  t.end();
});

const refusedNames: readonly (readonly [text: string, code: string, at: number])[] = [
  ['', 'not-xdstp', 0],
  ['cluster', 'not-xdstp', 0],
  ['xdstp:x', 'not-xdstp', 0],
  ['XDSTP://a/T/x', 'not-xdstp', 0],
  ['xdstp://', 'missing-type', 8],
  ['xdstp://a', 'missing-type', 9],
  ['xdstp://a/', 'missing-type', 10],
  ['xdstp://a//x', 'missing-type', 10],
  ['xdstp://a?b/T/x', 'missing-type', 9],
  ['xdstp://a/T', 'missing-id', 11],
  ['xdstp://a/T/', 'missing-id', 12],
  ['xdstp://a/T/?a=1', 'missing-id', 12],
  ['xdstp://a/T%2Ex/x', 'bad-type', 11],
  ['xdstp://a/T é/x', 'bad-type', 11],
  ['xdstp://a/T/x%', 'bad-escape', 13],
  ['xdstp://a/T/x%4', 'bad-escape', 13],
  ['xdstp://a/T/x%4g', 'bad-escape', 13],
  ['xdstp://a/T/x%4/?', 'bad-escape', 13],
  ['xdstp://a/T/%C3', 'bad-escape', 12],
  ['xdstp://a/T/%C0%AF', 'bad-escape', 12],
  ['xdstp://a/T/%ED%A0%80', 'bad-escape', 12],
  ['xdstp://a/T/x\ud800', 'bad-escape', 13],
  ['xdstp://a%zz/T/x', 'bad-escape', 9],
  ['xdstp://a/T/x\n', 'control-character', 13],
  ['xdstp://a/T/x%0d', 'control-character', 13],
  ['xdstp://a/T/x%00', 'control-character', 13],
  ['xdstp://a/T/x?a=\x7f', 'control-character', 16],
  ['xdstp://a/T/x?a=%1', 'bad-escape', 16],
  ['xdstp://a/T/x?=1', 'empty-parameter-key', 14],
  ['xdstp://a/T/x?a=1&b=2&%61=3', 'duplicate-parameter', 22],
  ['xdstp://a/T/x#alt=xdstp://b/T/x', 'fragment', 13],
  [`xdstp://a/T/${'x'.repeat(maxNameBytes - 11)}`, 'too-long', maxNameBytes],
  [`xdstp://a/T/${'ä'.repeat(1100)}`, 'too-long', maxNameBytes],
  [`xdstp://a/T/${'ä'.repeat(900)}`, 'too-long', 0],
];

t.test('an invalid name is refused with a code and the place (TP1, RFC 3986)', (t) => {
  for (const [text, code, at] of refusedNames) {
    const parsed = parseResourceName(text);
    t.match(parsed, { ok: false, error: { code, at } }, JSON.stringify(text.slice(0, 40)));
  }
  t.ok(parseResourceName(`xdstp://a/T/${'x'.repeat(maxNameBytes - 12)}`).ok, 'the limit is 2 KiB');
  t.end();
});

t.test('xdstp: marks a TP1 name, well-formed or not', (t) => {
  t.ok(isXdstp('xdstp://a/T/x'));
  t.ok(isXdstp('xdstp:x'));
  t.notOk(isXdstp('x'));
  t.end();
});

t.test('components are decoded, and parameters are sorted by key', (t) => {
  t.same(nameOf(`xdstp://a.b/${cluster}/edge/a%20b?z=1&y=%26`), {
    authority: 'a.b',
    resourceType: cluster,
    id: 'edge/a b',
    contextParams: [
      ['y', '&'],
      ['z', '1'],
    ],
    isGlob: false,
    key: `xdstp://a.b/${cluster}/edge/a%20b?y=%26&z=1`,
  });
  t.end();
});

t.test('only a last segment that is a literal * makes a glob (TP1 "Glob")', (t) => {
  for (const id of ['*', 'edge/*', 'a//*', 'a%2F*', '*/*']) {
    t.ok(nameOf(`xdstp://a/T/${id}`).isGlob, id);
  }
  for (const id of ['%2A', 'edge/%2a', 'edge*', '*/x', '**']) {
    t.notOk(nameOf(`xdstp://a/T/${id}`).isGlob, id);
  }
  t.not(nameOf('xdstp://a/T/e/*').key, nameOf('xdstp://a/T/e/%2A').key);
  t.end();
});

t.test('a glob contains one level with its own parameters (TP1 "Glob", cncf/xds 91)', (t) => {
  const glob = nameOf('xdstp://a/T/edge/*?x=a/b');
  const members = ['edge/a', 'edge%2Fl', 'e%64ge/m', 'edge/', 'edge/%2A'];
  for (const id of members) {
    t.ok(isMemberOf(nameOf(`xdstp://a/T/${id}?x=a/b`), glob), id);
  }
  const others = ['a/T/edge/a', 'a/T/edge/a?x=a/b&y=2', 'a/T/edge/f/g?x=a/b', 'a/T/h?x=a/b'];
  others.push('A/T/edge/a?x=a/b', 'b/T/edge/a?x=a/b', 'a/S/edge/a?x=a/b', 'a/T/edge/*?x=a/b');
  for (const other of others) {
    t.notOk(isMemberOf(nameOf(`xdstp://${other}`), glob), other);
  }
  t.notOk(isMemberOf(nameOf('xdstp://a/T/x'), nameOf('xdstp://a/T/y')), 'y is not a glob');
  t.equal(globKeyOf(nameOf('xdstp://a/T/x?p=a/b')), 'xdstp://a/T/*?p=a/b');
  t.equal(globKeyOf(glob), glob.key);
  t.end();
});

t.test('the parse of a name does not depend on the name that was parsed before', (t) => {
  const texts = [...spellings, ...refusedNames].map(([text]) => text);
  const parse = (text: string): string => JSON.stringify(parseResourceName(text));
  const alone = texts.map((text) => {
    // No other text has its prefix.
    parseResourceName('xdstp://before/T/x');
    return parse(text);
  });
  for (const before of texts) {
    const after = texts.map((text) => {
      parseResourceName(before);
      return parse(text);
    });
    t.strictSame(after, alone, JSON.stringify(before.slice(0, 40)));
  }
  t.end();
});

t.test('the glob key does not depend on the names that were asked about before', (t) => {
  const keys = [
    ['xdstp://a/T/x', 'xdstp://a/T/*'],
    ['xdstp://a/T/y', 'xdstp://a/T/*'],
    ['xdstp://a/T/*', 'xdstp://a/T/*'],
    ['xdstp://a/T/x/y', 'xdstp://a/T/x/*'],
    ['xdstp://a/T/xy', 'xdstp://a/T/*'],
    ['xdstp://a/T/x/', 'xdstp://a/T/x/*'],
    ['xdstp://a/T/y?p=a/b', 'xdstp://a/T/*?p=a/b'],
    ['xdstp://aa/T/x', 'xdstp://aa/T/*'],
    ['xdstp:///T/x', 'xdstp:///T/*'],
  ] as const;
  for (const [before] of keys) {
    for (const [text, globKey] of keys) {
      globKeyOf(nameOf(before));
      t.equal(globKeyOf(nameOf(text)), globKey, `${text} after ${before}`);
    }
  }
  t.end();
});

t.test('a name maps to an alternative authority and id, keeping parameters and glob', (t) => {
  const map = (from: string, id: string) => withAuthorityAndId(nameOf(from), 'b/c', id).key;
  t.equal(map('xdstp://a/T/x?p=%26', 'y z'), 'xdstp://b%2Fc/T/y%20z?p=%26');
  t.equal(map('xdstp://a/T/e/*', 'f/*'), 'xdstp://b%2Fc/T/f/*');
  t.equal(map('xdstp://a/T/e/x', 'f/*'), 'xdstp://b%2Fc/T/f/%2A');
  t.same(
    withAuthorityAndId(nameOf('xdstp://a/T/e/*?q=1'), 'b', 'f/*'),
    nameOf('xdstp://b/T/f/*?q=1'),
  );
  t.end();
});

t.test('components that form no name are refused', (t) => {
  const good = { authority: 'a', resourceType: 'T', id: 'x' };
  const code = (change: object): string => {
    const made = makeResourceName({ ...good, ...change });
    return made.ok ? made.value.key : made.error.code;
  };
  t.equal(code({}), 'xdstp://a/T/x');
  t.equal(code({ id: '100%41' }), 'xdstp://a/T/100%2541');
  t.equal(code({ id: 'e/*' }), 'xdstp://a/T/e/*');
  t.equal(code({ id: 'e/*', isGlob: false }), 'xdstp://a/T/e/%2A');
  t.equal(code({ isGlob: true }), 'not-a-glob');
  t.equal(code({ id: '' }), 'missing-id');
  t.equal(code({ resourceType: '' }), 'missing-type');
  t.equal(code({ resourceType: 'T/S' }), 'bad-type');
  t.equal(code({ authority: '\n' }), 'control-character');
  t.equal(code({ contextParams: [['k', '\udc00']] }), 'bad-escape');
  t.equal(code({ contextParams: [['', '']] }), 'empty-parameter-key');
  t.equal(code({ id: 'x'.repeat(maxNameBytes) }), 'too-long');
  const twice = ['k', 'v'];
  t.equal(code({ contextParams: [twice, twice] }), 'duplicate-parameter');
  t.end();
});

t.test('a locator carries alternatives and an entry (TP1 "processing directives")', (t) => {
  const example =
    'xdstp://cloud/T/foo?b=1&a=2#entry=list/e1,alt=xdstp://onprem/T/bar%3Fz=1%26y=2%23entry=e:2';
  const locator = locatorOf(example);
  t.equal(locator.name.key, 'xdstp://cloud/T/foo?a=2&b=1');
  t.same(locator.entries, ['list/e1']);
  t.equal(locator.alternatives[0]?.name.key, 'xdstp://onprem/T/bar?y=2&z=1');
  t.same(locator.alternatives[0]?.entries, ['e:2']);
  const canonical =
    'xdstp://cloud/T/foo?a=2&b=1#alt=xdstp://onprem/T/bar?y=2&z=1%23entry=e:2,entry=list/e1';
  t.equal(formatResourceLocator(locator), canonical);
  t.same(locatorOf(canonical), locator);
  t.same(locatorOf('xdstp://a/T/x#'), locatorOf('xdstp://a/T/x'), 'an empty fragment is none');
  t.equal(locatorOf('xdstp://a/T/*#alt=xdstp://b/T/e/*').alternatives[0]?.name.isGlob, true);
  t.end();
});

t.test('a locator is refused with a code and the place', (t) => {
  const nested = (depth: number): string =>
    depth === 0 ? 'xdstp://a/T/x' : `xdstp://a/T/x#alt=${encodeURIComponent(nested(depth - 1))}`;
  const refused: readonly (readonly [text: string, code: string, at: number])[] = [
    ['x', 'not-xdstp', 0],
    ['xdstp://a/T/x#foo=1', 'unknown-directive', 14],
    ['xdstp://a/T/x#entry=a,b', 'unknown-directive', 22],
    ['xdstp://a/T/x#,', 'unknown-directive', 14],
    ['xdstp://a/T/x#entry=a,entry=b', 'duplicate-directive', 22],
    ['xdstp://a/T/x#alt=xdstp://b/T/x,alt=xdstp://c/T/x', 'duplicate-directive', 32],
    ['xdstp://a/T/x#entry=', 'bad-entry', 20],
    ['xdstp://a/T/x#entry=a%20b', 'bad-entry', 20],
    ['xdstp://a/T/x#entry=%zz', 'bad-escape', 20],
    ['xdstp://a/T/x#alt=http://b/', 'not-xdstp', 18],
    ['xdstp://a/T/x#alt=xdstp://b/', 'missing-type', 28],
    ['xdstp://a/T/x#alt=xdstp://%62/', 'missing-type', 18],
    [nested(5), 'too-deep', 18],
    [`xdstp://a/T/x#entry=${'a'.repeat(9000)}`, 'too-long', 8192],
  ];
  for (const [text, code, at] of refused) {
    const parsed = parseResourceLocator(text);
    t.match(parsed, { ok: false, error: { code, at } }, text.slice(0, 60));
  }
  t.ok(parseResourceLocator(nested(4)).ok, 'four nested alternatives are read');
  t.end();
});

t.test('directives that Envoy escaped into a name are recognized again', (t) => {
  const split = (text: string) => escapedDirectivesOf(nameOf(text));
  const inId = split('xdstp://a/T/e1%23alt=xdstp://b/T/x?k=v');
  t.equal(inId?.locator.name.key, 'xdstp://a/T/e1');
  t.equal(inId?.locator.alternatives[0]?.name.key, 'xdstp://b/T/x?k=v');
  t.equal(inId?.rawText, 'xdstp://a/T/e1#alt=xdstp://b/T/x?k=v');
  const inValue = split('xdstp://a/T/x?a=2%23alt%3Dxdstp://o/T/x?k%3Dv,entry%3Dy&b=1');
  t.equal(inValue?.locator.name.key, 'xdstp://a/T/x?a=2&b=1');
  t.equal(inValue?.locator.alternatives[0]?.name.key, 'xdstp://o/T/x?k=v');
  t.same(inValue?.locator.entries, ['y']);
  const glob = split('xdstp://a/T/edge/*%23alt=xdstp://b/T/edge/*');
  t.equal(glob?.locator.name.isGlob, true);
  t.equal(split('xdstp://a/T/x?a=1'), undefined);
  t.equal(split('xdstp://a/T/x%23y'), undefined);
  t.equal(split('xdstp://a/T/x%23alt=nonsense'), undefined);
  t.end();
});

const component = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 8 }),
  fc.string({ unit: fc.constantFrom(...Array.from('ab/*%?#[]&=+ ä😀.')), maxLength: 8 }),
);
// eslint-disable-next-line no-control-regex -- control characters are what this keeps out
const cleanComponent = component.filter((text) => !/[\0-\x1f\x7f]/.test(text));
const components = fc.record({
  authority: cleanComponent,
  resourceType: fc.stringMatching(/^[A-Za-z0-9._-]{1,12}$/),
  id: cleanComponent.filter((id) => id !== ''),
  contextParams: fc.uniqueArray(
    fc.tuple(
      cleanComponent.filter((key) => key !== ''),
      cleanComponent,
    ),
    { selector: ([key]) => key, maxLength: 5 },
  ),
});

t.test('each glob may be one by its characters, and few other texts (ADR 0029)', (t) => {
  fc.assert(
    fc.property(components, (parts) => {
      const made = makeResourceName(parts);
      return !made.ok || !made.value.isGlob || mayBeGlob(made.value.key);
    }),
  );
  for (const text of [
    '*',
    'xdstp://a/T/*',
    'xdstp://a/T/e/*?p=1',
    'xdstp://a/T/a%2f*',
    'xdstp://a/T/*#alt=xdstp://b/T/*',
  ])
    t.ok(mayBeGlob(text), text);
  for (const text of ['', 'a', 'a*', '**', 'xdstp://a/T/x*', 'xdstp://a/T/%2A', 'xdstp://a/T/*/x'])
    t.notOk(mayBeGlob(text), text);
  t.end();
});

t.test('parsing a made name gives the same components and key, repeatedly', (t) => {
  fc.assert(
    fc.property(components, fc.boolean(), (parts, star) => {
      const made = makeResourceName({ ...parts, ...(star ? { isGlob: false } : {}) });
      if (!made.ok) {
        throw new Error(made.error.code);
      }
      t.same(nameOf(made.value.key), made.value);
      t.equal(made.value.authority, parts.authority);
      t.equal(made.value.id, parts.id);
      t.same(new Map(made.value.contextParams), new Map(parts.contextParams));
    }),
    { numRuns: 500 },
  );
  t.end();
});

t.test('two names have one key exactly if they match component-wise (TP1)', (t) => {
  const small = fc.record({
    authority: fc.constantFrom('', 'a', 'a/'),
    resourceType: fc.constantFrom('T', 'S'),
    id: fc.string({ unit: fc.constantFrom('a', '/', '*', '%', '?'), minLength: 1, maxLength: 3 }),
    contextParams: fc.constantFrom<[string, string][]>([], [['a', '']], [['a=', '']], [['a', '=']]),
    isGlob: fc.constant(false),
  });
  fc.assert(
    fc.property(small, small, (a, b) => {
      const [left, right] = [makeResourceName(a), makeResourceName(b)];
      const equal = left.ok && right.ok && left.value.key === right.value.key;
      return equal === (JSON.stringify(a) === JSON.stringify(b));
    }),
    { numRuns: 5_000 },
  );
  t.pass();
  t.end();
});

t.test('all orders of the parameters give one key (TP1 "Normalization")', (t) => {
  fc.assert(
    fc.property(
      components.chain(({ contextParams }) =>
        fc.tuple(
          fc.constant(contextParams),
          fc.shuffledSubarray(contextParams, { minLength: contextParams.length }),
        ),
      ),
      ([ordered, shuffled]) => {
        const key = (params: typeof ordered): string => {
          const query = params.map((pair) => pair.map(encodeURIComponent).join('=')).join('&');
          return nameOf(`xdstp://a/T/x?${query}`).key;
        };
        return key(ordered) === key(shuffled);
      },
    ),
    { numRuns: 1000 },
  );
  t.pass();
  t.end();
});

t.test('membership agrees with a model that compares components', (t) => {
  const part = fc.constantFrom('', 'a', '*', 'b c');
  const name = fc
    .record({
      authority: fc.constantFrom('a', 'b'),
      resourceType: fc.constantFrom('T', 'S'),
      segments: fc.array(part, { minLength: 1, maxLength: 3 }),
      contextParams: fc.constantFrom<[string, string][]>([], [['p', '/x']], [['p', '']]),
    })
    .filter(({ segments }) => segments.join('/') !== '')
    .map(({ segments, ...rest }) => makeResourceName({ ...rest, id: segments.join('/') }));
  const directory = (id: string): string => id.split('/').slice(0, -1).join('\0');
  fc.assert(
    fc.property(name, name, (a, b) => {
      if (!a.ok || !b.ok) {
        return false;
      }
      const [member, glob] = [a.value, b.value];
      const model =
        glob.isGlob &&
        !member.isGlob &&
        member.authority === glob.authority &&
        member.resourceType === glob.resourceType &&
        JSON.stringify(member.contextParams) === JSON.stringify(glob.contextParams) &&
        member.id.split('/').length === glob.id.split('/').length &&
        directory(member.id) === directory(glob.id);
      return isMemberOf(member, glob) === model;
    }),
    { numRuns: 5_000 },
  );
  t.pass();
  t.end();
});

t.test('no text makes parsing throw, and an accepted text is a fixed point', (t) => {
  const hostile = fc.array(
    fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom(...Array.from('/?#&=%*+,[]@: ab\n\0')) },
      {
        weight: 3,
        arbitrary: fc.constantFrom('xdstp://', 'alt=', 'entry=', '%2', '%2F', '%C3', '%00', '//'),
      },
      { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 3 }) },
      { weight: 1, arbitrary: fc.constantFrom('\ud800', '\udfff', '\u0085', '\u2028') },
    ),
    { maxLength: 16 },
  );
  const text = fc
    .tuple(
      fc.constantFrom('xdstp://', 'xdstp://a/T/', 'xdstp://a/T/x?', 'xdstp://a/T/x#', ''),
      hostile,
    )
    .map(([start, rest]) => start + rest.join(''));
  let accepted = 0;
  fc.assert(
    fc.property(text, (written) => {
      const name = parseResourceName(written);
      const locator = parseResourceLocator(written);
      if (name.ok) {
        accepted += 1;
        escapedDirectivesOf(name.value);
      }
      return (
        (!name.ok || nameOf(name.value.key).key === name.value.key) &&
        (!name.ok || locator.ok) &&
        (name.ok || name.error.at <= written.length) &&
        (!locator.ok ||
          formatResourceLocator(locatorOf(formatResourceLocator(locator.value))) ===
            formatResourceLocator(locator.value))
      );
    }),
    { numRuns: 25_000 },
  );
  t.ok(accepted > 1000, `${accepted} of the fuzzed texts were names`);
  t.end();
});
