import t from 'tap';
import fc from 'fast-check';
import {
  formatParameters,
  keyWithParameters,
  parametersIn,
  readParameters,
  withParameters,
} from '../../../protos/dynamic-parameters.js';
import {
  authorityOfKey,
  globKeyOf,
  isMemberOf,
  isOldStyle,
  locatorOfName,
  nameOfKey,
  oldStyleName,
  parametersOfKey,
  plainKeyOf,
  wireText,
} from '../../../protos/resource-name.js';
import { nameOf } from '../../support/fake-directory.js';

const URN = 'xdstp://a/T/e/x?q=1';

t.test('equal parameters have one canonical text, whatever their order (TP2)', (t) => {
  t.equal(formatParameters([]), '');
  t.equal(
    formatParameters([
      ['version', 'v1'],
      ['env', 'prod'],
    ]),
    'env=prod&version=v1',
  );
  t.equal(
    formatParameters([
      ['env', 'test'],
      ['env', 'prod'],
    ]),
    'env=prod',
    'as in a protobuf map',
  );
  t.equal(
    formatParameters([
      ['a&b', '#\t\n=%'],
      ['', ''],
    ]),
    '=&a%26b=%23%09%0A%3D%25',
  );
  const pairs = fc.array(fc.tuple(fc.string(), fc.string({ unit: 'binary' })), { maxLength: 6 });
  fc.assert(
    fc.property(pairs, (all) => {
      const text = formatParameters(all);
      const read = parametersIn(text);
      t.equal(formatParameters(read), text);
      t.equal(formatParameters([...read].reverse()), text);
      t.equal(readParameters(text), text);
      t.equal(
        formatParameters(all.map(([key, value]) => [`k${key}`, value])).search(/[\t\n#/?]/),
        -1,
      );
    }),
  );
  for (const other of ['b=1&a=1', 'a=1&a=2', 'a', 'a=b=c', 'a=%zz', 'a=é', '&'])
    t.equal(readParameters(other), undefined, other);
  t.end();
});

t.test('a name with parameters has the text of the plain name, and a key of its own (TP2)', (t) => {
  for (const plain of [nameOf(URN), oldStyleName('scope', 'a\tb\nc'), oldStyleName('', '')]) {
    const prod = withParameters(plain, 'env=prod');
    t.not(prod.key, plain.key);
    t.equal(prod.key, keyWithParameters(plain.key, 'env=prod'));
    t.equal(wireText(prod.key), wireText(plain.key));
    t.equal(plainKeyOf(prod.key), plain.key);
    t.equal(plainKeyOf(plain.key), plain.key);
    t.equal(parametersOfKey(prod.key), 'env=prod');
    t.equal(parametersOfKey(plain.key), '');
    t.equal(isOldStyle(prod), isOldStyle(plain));
    t.equal(authorityOfKey(prod.key), plain.authority);
    t.strictSame(nameOfKey(prod.key), prod);
    t.strictSame(withParameters(prod, ''), plain);
    t.equal(withParameters(plain, ''), plain);
    t.equal(withParameters(prod, 'env=prod'), prod);
    t.equal(withParameters(prod, 'env=test').key, keyWithParameters(plain.key, 'env=test'));
    t.not(globKeyOf(prod), globKeyOf(plain));
    t.equal(plainKeyOf(globKeyOf(prod)), globKeyOf(plain));
    t.equal(locatorOfName(prod), undefined);
  }
  t.notOk(isMemberOf(withParameters(nameOf(URN), 'env=prod'), nameOf('xdstp://a/T/e/*?q=1')));
  t.end();
});

t.test('a key whose parameters are not canonical is no key', (t) => {
  for (const text of ['b=1&a=1', '', 'x'])
    t.equal(nameOfKey(`\t${text}\t${URN}`), undefined, JSON.stringify(text));
  t.equal(nameOfKey('\ta=1\tnot-a-name'), undefined);
  t.equal(nameOfKey(`\ta=1\t\tb=2\t${URN}`), undefined);
  t.end();
});
