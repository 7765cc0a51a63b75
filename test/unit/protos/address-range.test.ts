/**
 * Goal: a range of addresses contains what RFC 4632 and RFC 4291 say, and no other text is one.
 * Method: tables.
 */
import t from 'tap';
import { hasNoHostBits, isInRange, parseAddressRange } from '../../../protos/address-range.js';

const INSIDE: readonly (readonly [range: string, address: string, isInside: boolean])[] = [
  ['10.0.0.0/8', '10.255.3.4', true],
  ['10.0.0.0/8', '11.0.0.0', false],
  ['10.0.0.0/9', '10.127.0.1', true],
  ['10.0.0.0/9', '10.128.0.1', false],
  ['0.0.0.0/0', '203.0.113.9', true],
  ['0.0.0.0/0', '::1', false],
  ['10.1.2.3', '10.1.2.3', true],
  ['10.1.2.3', '10.1.2.4', false],
  ['10.0.0.0/8', '::ffff:10.1.2.3', true],
  ['::ffff:10.0.0.0/8', '10.1.2.3', true],
  ['fd00::/8', 'fdff::1', true],
  ['fd00::/8', 'fe80::1', false],
  ['fe80::/10', 'fe80::1%eth0', true],
  ['::/0', '2001:db8::1', true],
  ['::/0', '10.1.2.3', false],
  ['2001:db8:0:0:0:0:0:1', '2001:db8::1', true],
  ['10.0.0.0/8', '', false],
  ['10.0.0.0/8', 'unknown', false],
];

t.test('an address is in a range if it has its prefix (RFC 4632, RFC 4291)', (t) => {
  for (const [range, address, isInside] of INSIDE) {
    const parsed = parseAddressRange(range);
    if (!parsed) throw new Error(range);
    t.equal(isInRange(address, parsed), isInside, `${address} in ${range}`);
  }
  t.end();
});

t.test('a text that is neither an address nor a range is refused', (t) => {
  const texts = [
    ...[
      '',
      '10',
      '10.0.0',
      '10.0.0.256',
      '010.0.0.0/8',
      '10.0.0.0/33',
      '10.0.0.0/',
      '10.0.0.0/8/9',
    ],
    ...[
      '::/129',
      '1:2:3:4:5:6:7',
      '1::2::3',
      '1:2:3:4:5:6:7::8',
      '12345::',
      'g::',
      'host',
      '10.0.0.0/x',
    ],
  ];
  for (const text of texts) t.equal(parseAddressRange(text), undefined, text);
  t.end();
});

t.test('a prefix that cuts an address short is told apart', (t) => {
  const rows = [
    ['10.0.0.0/8', true],
    ['10.0.0.1/8', false],
    ['10.128.0.0/9', true],
    ['10.192.0.0/9', false],
    ['10.0.0.1', true],
    ['fd00::/8', true],
    ['fd00::1/8', false],
  ] as const;
  for (const [text, isWhole] of rows) {
    const parsed = parseAddressRange(text);
    t.equal(parsed && hasNoHostBits(parsed), isWhole, text);
  }
  t.end();
});
