/** Goal: operators learn which entries of `clients` decide for no client (docs/SECURITY.md, "Which entry decides"). */
import t from 'tap';
import type { ClientMatch, ClientRule } from '../../../config/model.js';
import { coveringRule, identityWarnings } from '../../../config/unmatched-rules.js';
import { parseAddressRange } from '../../../protos/address-range.js';

const range = (text: string): ClientMatch => {
  const address = parseAddressRange(text);
  if (!address) throw new Error(text);
  return { address };
};
const isCovered = (earlier: ClientMatch, later: ClientMatch): boolean =>
  coveringRule([{ match: earlier }, { match: later }], 1) === 0;

const COVERED: readonly (readonly [ClientMatch, ClientMatch])[] = [
  [{ spiffe: 'spiffe://a/*' }, { spiffe: 'spiffe://a/*' }],
  [{ spiffe: 'spiffe://a/*' }, { spiffe: 'spiffe://a/b/*' }],
  [{ spiffe: 'spiffe://a/*' }, { spiffe: 'spiffe://a/b', dns: 'x.test' }],
  [{ dns: '*.test' }, { dns: 'x.test' }],
  [{ dns: '*.test' }, { dns: '*.test' }],
  [{ jwt: { sub: 'a*' } }, { jwt: { sub: 'ab', level: 3 } }],
  [{ jwt: { level: 3 } }, { jwt: { level: 3 } }],
  [{ anonymous: true }, { anonymous: true, ...range('10.0.0.0/8') }],
  [range('10.0.0.0/8'), { ...range('10.1.0.0/16'), spiffe: 'spiffe://a/b' }],
  [range('0.0.0.0/0'), range('10.0.0.1')],
];
const FREE: readonly (readonly [ClientMatch, ClientMatch])[] = [
  [{ spiffe: 'spiffe://a/b/*' }, { spiffe: 'spiffe://a/*' }],
  [{ spiffe: 'spiffe://a/*' }, { spiffe: 'spiffe://a/' }],
  [{ spiffe: 'spiffe://a/b' }, { spiffe: 'spiffe://a/c' }],
  [{ spiffe: 'spiffe://a/*' }, { dns: 'x.test' }],
  [{ dns: '*.test' }, { dns: 'x.y.test' }],
  [{ dns: '*.test' }, { dns: '*.y.test' }],
  [{ dns: '*.test' }, { spiffe: 'spiffe://a/b' }],
  [{ jwt: { sub: 'a', level: 3 } }, { jwt: { sub: 'a' } }],
  [{ jwt: { level: 3 } }, { jwt: { level: 4 } }],
  [{ jwt: { level: '3' } }, { jwt: { level: 3 } }],
  [{ anonymous: true }, range('10.0.0.0/8')],
  [range('10.1.0.0/16'), range('10.0.0.0/8')],
  [range('10.0.0.0/8'), range('11.0.0.0/8')],
  [range('0.0.0.0/0'), range('fd00::/8')],
  [range('10.0.0.0/8'), { anonymous: true }],
];

t.test('an entry whose clients an earlier entry matches decides for none', (t) => {
  for (const [a, b] of COVERED) t.ok(isCovered(a, b), JSON.stringify([a, b]));
  for (const [a, b] of FREE) t.notOk(isCovered(a, b), JSON.stringify([a, b]));
  t.equal(coveringRule([], 0), -1);
  t.end();
});

const rule = (match: ClientMatch): ClientRule => ({
  match,
  allow: [],
  limits: {},
  hideExistence: false,
});

t.test('an entry for an identity that the listener does not verify matches no client', (t) => {
  const rules = [
    rule({ spiffe: 'spiffe://a/*' }),
    rule({ dns: 'x.test' }),
    rule({ jwt: { sub: 'a' } }),
    rule({ anonymous: true }),
  ];
  const fieldsOf = (settings: Parameters<typeof identityWarnings>[1]): readonly string[] =>
    identityWarnings(rules, settings, '/map.yaml').map(({ field }) => field);
  const tls = { certChainFile: 'c', privateKeyFile: 'k' };
  const jwt = { jwksFile: 'j', issuer: 'i', audience: 'a', clockSkewMs: 0 };
  t.strictSame(fieldsOf({ tls, jwt: null }), [
    'clients[0].match.spiffe',
    'clients[1].match.dns',
    'clients[2].match.jwt',
  ]);
  t.strictSame(fieldsOf({ tls: { ...tls, clientCaFile: 'a' }, jwt }), []);
  t.strictSame(identityWarnings(undefined, { tls: null, jwt: null }, '/map.yaml'), []);
  t.end();
});
