/**
 * Goal: a client gets what the first entry that matches its identity allows, and nothing else.
 * Method: tables of identities, entries and names.
 */
import t from 'tap';
import type { ClientGrant, ClientMatch, ClientRule } from '../../../../../config/model.js';
import {
  identityOf,
  identityText,
  matchingRule,
  type Identity,
} from '../../../../../gateway/core/rights/requester.js';
import {
  EVERYTHING,
  rightsOf,
  verdictOf,
  type Rights,
} from '../../../../../gateway/core/rights/rights.js';
import { readAskedName } from '../../../../../gateway/core/session/asked-name.js';
import { parseAddressRange } from '../../../../../protos/address-range.js';
import type { ResourceName } from '../../../../../protos/resource-name.js';
import { CDS, LDS, SDS, cds, lds, sds } from '../../../../support/mesh-names.js';

const EDGE = 'spiffe://prod.example.com/ns/edge/sa/envoy';
const certificate = (uris: readonly string[], dnsNames: readonly string[] = []): Identity =>
  identityOf({ uris, dnsNames }, undefined);
const token = (claims: Readonly<Record<string, unknown>>): Identity =>
  identityOf(undefined, claims);
const NOBODY = identityOf(undefined, undefined);

const rule = (match: ClientMatch, more: Partial<ClientRule> = {}): ClientRule => ({
  match,
  allow: [],
  limits: {},
  hideExistence: false,
  ...more,
});

t.test('a certificate with a name comes before a token, which comes before nothing', (t) => {
  t.equal(identityOf({ uris: [EDGE], dnsNames: [] }, { sub: 'x' }).kind, 'certificate');
  t.equal(identityOf({ uris: [], dnsNames: ['a'] }, undefined).kind, 'certificate');
  t.equal(identityOf({ uris: [], dnsNames: [] }, { sub: 'x' }).kind, 'jwt');
  t.equal(identityOf({ uris: [], dnsNames: [] }, undefined).kind, 'anonymous');
  t.strictSame(
    [
      certificate([EDGE], ['a']),
      certificate([], ['a']),
      token({ sub: 's' }),
      token({}),
      NOBODY,
    ].map(identityText),
    [EDGE, 'dns:a', 'jwt:s', 'jwt:', 'anonymous'],
  );
  t.equal(identityText({ kind: 'certificate', uris: [], dnsNames: [] }), 'dns:');
  t.end();
});

const range = parseAddressRange('10.0.0.0/8');
if (!range) throw new Error('a range');

const MATCHES: readonly (readonly [ClientMatch, Identity, boolean])[] = [
  [{ spiffe: EDGE }, certificate([EDGE]), true],
  [{ spiffe: EDGE }, certificate([`${EDGE}2`]), false],
  [{ spiffe: EDGE }, certificate(['spiffe://other', EDGE]), true],
  [{ spiffe: 'spiffe://prod.example.com/ns/edge/*' }, certificate([EDGE]), true],
  [
    { spiffe: 'spiffe://prod.example.com/ns/edge/*' },
    certificate(['spiffe://prod.example.com/ns/edge/']),
    false,
  ],
  [
    { spiffe: 'spiffe://prod.example.com/ns/edge/*' },
    certificate(['spiffe://prod.example.com/ns/edgy/sa/x']),
    false,
  ],
  [{ spiffe: EDGE }, token({ sub: EDGE }), false],
  [{ spiffe: EDGE }, NOBODY, false],
  [{ dns: 'a.example.com' }, certificate([], ['A.example.com']), true],
  [{ dns: 'a.example.com' }, certificate([], ['b.example.com']), false],
  [{ dns: '*.example.com' }, certificate([], ['a.example.com']), true],
  [{ dns: '*.example.com' }, certificate([], ['a.b.example.com']), false],
  [{ dns: '*.example.com' }, certificate([], ['example.com']), false],
  [{ dns: '*.example.com' }, certificate([], ['.example.com']), false],
  [{ dns: '*.example.com' }, certificate([], ['*.example.com']), false],
  [{ spiffe: EDGE, dns: 'a' }, certificate([EDGE], ['a']), true],
  [{ spiffe: EDGE, dns: 'a' }, certificate([EDGE], ['b']), false],
  [{ jwt: { sub: 'x' } }, token({ sub: 'x' }), true],
  [{ jwt: { sub: 'x' } }, token({ sub: 'xy' }), false],
  [{ jwt: { sub: 'ns:*' } }, token({ sub: 'ns:edge' }), true],
  [{ jwt: { groups: 'edge' } }, token({ groups: ['a', 'edge'] }), true],
  [{ jwt: { groups: 'edge' } }, token({ groups: ['a'] }), false],
  [{ jwt: { level: 3, admin: true } }, token({ level: 3, admin: true }), true],
  [{ jwt: { level: 3, admin: true } }, token({ level: 3, admin: 'true' }), false],
  [{ jwt: { constructor: 'x' } }, token({}), false],
  [{ jwt: { sub: 'x' } }, NOBODY, false],
  [{ anonymous: true }, NOBODY, true],
  [{ anonymous: true }, token({ sub: 'x' }), false],
  [{ anonymous: true }, certificate([EDGE]), false],
];

t.test('an entry matches the identities that all of its fields allow', (t) => {
  for (const [match, identity, isMatch] of MATCHES) {
    const found = matchingRule([rule(match)], { identity, address: '10.1.2.3' });
    t.equal(found, isMatch ? 0 : -1, `${JSON.stringify(match)} ${JSON.stringify(identity)}`);
  }
  t.equal(matchingRule([rule({ address: range })], { identity: NOBODY, address: '10.1.2.3' }), 0);
  t.equal(matchingRule([rule({ address: range })], { identity: NOBODY, address: '11.1.2.3' }), -1);
  t.end();
});

t.test('the first entry that matches decides, whatever later entries allow (invariant 23)', (t) => {
  const all: ClientGrant = { kind: 'xdstp', authority: '*', paths: undefined, types: undefined };
  const rules = [rule({ address: range }), rule({ anonymous: true }, { allow: [all] })];
  const at = (address: string) => rightsOf(rules, { identity: NOBODY, address }, '');
  t.match(verdictOf(at('10.0.0.1'), CDS, name(CDS, cds('a'))), { kind: 'denied' });
  t.match(verdictOf(at('11.0.0.1'), CDS, name(CDS, cds('a'))), { kind: 'granted' });
  t.end();
});

function name(typeUrl: string, text: string): ResourceName {
  const asked = readAskedName(typeUrl, text, () => ({ kind: 'scope', scope: 'g' }));
  if (!asked.ok) throw new Error(asked.status.message);
  return asked.name;
}

const grant = (allow: Partial<Extract<ClientGrant, { kind: 'xdstp' }>>): ClientGrant => ({
  kind: 'xdstp',
  authority: 'cloud',
  paths: undefined,
  types: undefined,
  ...allow,
});

const EDGE_ONLY = grant({ paths: [{ prefix: 'edge/' }, { id: 'web' }, { id: 'dir/*' }] });
const CLUSTERS = 'xdstp://cloud/envoy.config.cluster.v3.ClusterCollection';
const OLD: ClientGrant = { kind: 'old_style', types: undefined };

const VERDICTS: readonly (readonly [
  ClientGrant,
  type: string,
  name: string,
  isGranted: boolean,
])[] = [
  [EDGE_ONLY, CDS, cds('edge/a'), true],
  [EDGE_ONLY, CDS, cds('edge/deep/a'), true],
  [EDGE_ONLY, CDS, cds('edge'), false],
  [EDGE_ONLY, CDS, cds('edgy/a'), false],
  [EDGE_ONLY, CDS, cds('web'), true],
  [EDGE_ONLY, CDS, cds('web2'), false],
  [EDGE_ONLY, CDS, cds('web?env=prod'), true],
  [EDGE_ONLY, CDS, cds('other?x=/edge/a'), false],
  [EDGE_ONLY, CDS, cds('edge/*'), true],
  [EDGE_ONLY, CDS, cds('edge/deep/*'), true],
  [EDGE_ONLY, CDS, cds('*'), false],
  [EDGE_ONLY, CDS, cds('dir/*'), false],
  [EDGE_ONLY, CDS, cds('dir/%2A'), true],
  [EDGE_ONLY, CDS, cds('edge/a', 'onprem'), false],
  [grant({ authority: '*' }), CDS, cds('a', 'onprem'), true],
  [grant({}), CDS, cds('*'), true],
  [grant({ paths: [] }), CDS, cds('a'), false],
  [grant({ paths: [{ prefix: '' }] }), CDS, cds('*'), true],
  // What a client writes after the name is asked for as well.
  [EDGE_ONLY, CDS, `${cds('edge/a')}#alt=${cds('edge/b')}`, true],
  [EDGE_ONLY, CDS, `${cds('edge/a')}#alt=${cds('secret/b')}`, false],
  [EDGE_ONLY, CDS, `${cds('edge/a')}%23alt=${cds('secret/b')}`, false],
  [EDGE_ONLY, CDS, `${cds('edge/a')}#alt=${cds('edge/b')}%23alt=${cds('secret/c')}`, false],
  // Lists.
  [EDGE_ONLY, CDS, `${CLUSTERS}/edge/all`, true],
  [EDGE_ONLY, CDS, `${CLUSTERS}/edge/all#entry=x`, true],
  [EDGE_ONLY, CDS, `${CLUSTERS}/all`, false],
  [grant({ types: ['Cluster'] }), CDS, `${CLUSTERS}/all`, true],
  [grant({ types: ['Cluster'] }), `${CDS}Collection`, `${CLUSTERS}/all`, true],
  [grant({ types: ['Listener'] }), `${CDS}Collection`, `${CLUSTERS}/all`, false],
  // Types.
  [grant({ types: ['Cluster'] }), CDS, cds('a'), true],
  [grant({ types: ['Cluster'] }), LDS, lds('a'), false],
  [grant({ types: ['envoy.config.cluster.v3.Cluster'] }), CDS, cds('a'), true],
  [grant({ types: ['v3.Cluster'] }), CDS, cds('a'), false],
  [grant({ types: ['Cluster'] }), CDS, lds('a'), false],
  [grant({}), SDS, sds('a'), false],
  [grant({}), CDS, sds('a'), false],
  [grant({}), `${SDS}Collection`, sds('a'), false],
  [grant({ types: ['Secret'] }), SDS, sds('a'), true],
  // Old-style names.
  [OLD, CDS, 'web', true],
  [OLD, CDS, '*', true],
  [OLD, SDS, 'cert', false],
  [{ kind: 'old_style', types: ['Secret'] }, SDS, 'cert', true],
  [{ kind: 'old_style', types: ['Secret'] }, CDS, 'web', false],
  [OLD, CDS, cds('a'), false],
  [grant({ authority: '*' }), CDS, 'web', false],
];

const rightsBy = (one: ClientRule, nodeId: string | undefined): Rights =>
  rightsOf([one], { identity: NOBODY, address: '' }, nodeId);

t.test(
  'a name is allowed by authority, path and type, a glob only with its whole directory (invariant 23)',
  (t) => {
    for (const [one, typeUrl, text, isGranted] of VERDICTS) {
      const rights = rightsBy(rule({ anonymous: true }, { allow: [one] }), '');
      const { kind } = verdictOf(rights, typeUrl, name(typeUrl, text));
      t.equal(kind, isGranted ? 'granted' : 'denied', `${JSON.stringify(one)} ${typeUrl} ${text}`);
    }
    t.end();
  },
);

t.test('an alternative needs a right of its own, which another grant may give', (t) => {
  const text = `${cds('edge/a')}#alt=${cds('b', 'onprem')}`;
  const allow = [EDGE_ONLY, grant({ authority: 'onprem' })];
  t.match(verdictOf(rightsBy(rule({ anonymous: true }, { allow }), ''), CDS, name(CDS, text)), {
    kind: 'granted',
  });
  t.end();
});

t.test('without rules every name is allowed, and without a matching entry none', (t) => {
  t.equal(rightsOf(undefined, { identity: NOBODY, address: '' }, ''), EVERYTHING);
  t.match(verdictOf(EVERYTHING, SDS, name(SDS, sds('a'))), { kind: 'granted' });
  const none = rightsOf([], { identity: NOBODY, address: '' }, '');
  t.match(verdictOf(none, CDS, name(CDS, cds('a'))), { kind: 'denied', isHidden: false });
  t.end();
});

t.test('a denial is hidden where the entry says so', (t) => {
  const hidden = rightsBy(rule({ anonymous: true }, { hideExistence: true }), '');
  t.match(verdictOf(hidden, CDS, name(CDS, cds('a'))), { kind: 'denied', isHidden: true });
  t.end();
});

const NODE_IDS: readonly (readonly [pattern: string, id: string, fits: boolean])[] = [
  ['edge-1', 'edge-1', true],
  ['edge-1', 'edge-12', false],
  ['edge-*', 'edge-1', true],
  ['edge-*', 'edge-', true],
  ['edge-*', 'ledge-1', false],
  ['sidecar~*~*.edge~edge.svc', 'sidecar~10.0.0.1~web-1.edge~edge.svc', true],
  ['sidecar~*~*.edge~edge.svc', 'sidecar~10.0.0.1~web-1.core~edge.svc', false],
  ['a*ab*b', 'aabb', true],
  ['a*ab*b', 'aab', false],
  ['a*ab*ab', 'aabab', true],
  ['a*a', 'a', false],
  ['*', '', true],
];

t.test('node_id_must_match denies everything to a client with another Node id', (t) => {
  for (const [pattern, id, fits] of NODE_IDS) {
    const more = { allow: [grant({})], nodeIdMustMatch: pattern };
    const rights = rightsBy(rule({ anonymous: true }, more), id);
    const { kind } = verdictOf(rights, CDS, name(CDS, cds('a')));
    t.equal(kind, fits ? 'granted' : 'denied', `${pattern} ${id}`);
  }
  const all = rule({ anonymous: true }, { allow: [grant({})], nodeIdMustMatch: '*' });
  const tooLong = verdictOf(rightsBy(all, undefined), CDS, name(CDS, cds('a')));
  t.equal(tooLong.kind, 'denied', 'of an id that is too long to be kept, the end is unknown');
  t.end();
});
