/** Goal: of a client's identity, each source gets exactly the parts that the map names for it. */
import t from 'tap';
import {
  dialIdentityOf,
  identityOfFields,
  nodePartOf,
  SecretHeaders,
  type ClientIdentity,
} from '../../../../../authorities/core/sources/client-identity.js';
import { appliesTo } from '../../../../../authorities/core/sources/node-conditions.js';
import { scopeAtSource } from '../../../../../authorities/core/sources/source-ids.js';
import { withoutSecrets } from '../../../../../authorities/secrets.js';
import type {
  GrpcSourceSpec,
  NodeCondition,
  OldStyleEntrySpec,
} from '../../../../../config/model.js';
import { encodeNode } from '../../../../../protos/node-codec.js';
import { mapOf } from '../../../../support/federation-driver.js';

const [base] = mapOf({ authorities: { a: { sources: ['s'] } } }).sources.values();
const sourceWith = (more: Partial<GrpcSourceSpec>): GrpcSourceSpec => ({
  ...(base as GrpcSourceSpec),
  ...more,
});

const NODE = encodeNode({
  id: 'a',
  cluster: 'c',
  metadata: { team: 'x', stage: null },
  userAgentName: 'envoy',
  userAgentVersion: '1',
});
const CERTIFICATE = {
  sha256: 'ab',
  subject: 'CN=a',
  uris: ['spiffe://mesh/a'],
  dnsNames: ['a.b'],
  by: ['spiffe://mesh/g'],
};
const IDENTITY: ClientIdentity = {
  fields: { id: 'a', cluster: 'c' },
  node: NODE,
  headers: new SecretHeaders(new Map([['authorization', ['one', 'two']]])),
  certificate: CERTIFICATE,
};

t.test('a source gets the headers that it names, and no others', (t) => {
  const headersOf = (more: Partial<GrpcSourceSpec>): unknown =>
    dialIdentityOf(sourceWith(more), IDENTITY).headers;
  t.strictSame(headersOf({}), []);
  t.strictSame(headersOf({ forwardHeaders: ['x-other', 'authorization'] }), [
    ['authorization', 'one'],
    ['authorization', 'two'],
  ]);
  t.strictSame(dialIdentityOf(sourceWith({ forwardHeaders: ['authorization'] }), undefined), {
    headers: [],
  });
  t.end();
});

t.test('a certificate is written as by Envoy, and its names add no elements', (t) => {
  const written = (certificate: typeof CERTIFICATE): unknown =>
    dialIdentityOf(sourceWith({ clientIdentity: 'forward' }), { ...IDENTITY, certificate })
      .headers[0]?.[1];
  t.equal(
    written(CERTIFICATE),
    'By=spiffe://mesh/g;Hash=ab;Subject="CN=a";URI=spiffe://mesh/a;DNS=a.b',
  );
  t.equal(
    written({
      ...CERTIFICATE,
      subject: 'CN=\\"x\\"\\;URI=y',
      uris: [],
      by: [],
      dnsNames: ['a;URI=b', 'c"', 'd\\', 'e f', 'é', ''],
    }),
    'Hash=ab;Subject="CN=\\"x\\"\\;URI=y";URI=;DNS="a;URI=b"',
    'names that no certificate should have are left out',
  );
  const none = { ...IDENTITY, certificate: undefined };
  t.strictSame(dialIdentityOf(sourceWith({ clientIdentity: 'forward' }), none).headers, []);
  t.end();
});

t.test(
  'with `tls_by_identity`, a group without a certificate has no names, not the gateway’s',
  (t) => {
    const spec = sourceWith({ tlsByIdentity: '/ids' });
    t.strictSame(dialIdentityOf(spec, IDENTITY).certificateNames, ['spiffe://mesh/a', 'a.b']);
    t.strictSame(dialIdentityOf(spec, identityOfFields({})).certificateNames, []);
    t.equal(dialIdentityOf(spec, undefined).certificateNames, undefined, 'no particular group');
    t.end();
  },
);

t.test(
  'a source gets the fields of `differ_by`, or those of `forward_node`, or the whole Node',
  (t) => {
    const part = (more: Partial<GrpcSourceSpec>, identity = IDENTITY): unknown =>
      nodePartOf(sourceWith(more), identity, ['id']);
    t.strictSame(part({}), { fields: { id: 'a' } });
    t.strictSame(part({ forwardNode: ['cluster', 'metadata.stage', 'metadata.none'] }), {
      fields: { cluster: 'c', metadata: { stage: null } },
    });
    t.strictSame(part({ forwardNode: 'all' }), { whole: NODE });
    t.strictSame(part({ node: { id: 'own', cluster: '' } }), { fields: {} });
    t.strictSame(nodePartOf(sourceWith({}), IDENTITY, 'all'), { whole: NODE });
    t.end();
  },
);

t.test(
  'a group that is known by its scope alone has no whole Node, so `forward_node: all` sends its fields',
  (t) => {
    const known = identityOfFields({ id: 'a', cluster: 'c' });
    const spec = sourceWith({ forwardNode: 'all' });
    t.strictSame(nodePartOf(spec, known, ['id']), { fields: { id: 'a', cluster: 'c' } });
    t.strictSame(nodePartOf(sourceWith({}), known, ['id']), { fields: { id: 'a' } });
    t.end();
  },
);

t.test(
  'a source with a Node of its own is shared by all groups, unless it tells them apart',
  (t) => {
    const node = { id: 'own', cluster: '' };
    t.equal(scopeAtSource(sourceWith({ node }), 'scope'), '');
    for (const more of [
      { forwardHeaders: ['a'] },
      { clientIdentity: 'forward' },
      { tlsByIdentity: '/ids' },
    ] as const) {
      t.equal(scopeAtSource(sourceWith({ node, ...more }), 'scope'), 'scope', JSON.stringify(more));
    }
    t.end();
  },
);

t.test('an entry applies to a client whose Node meets all of its conditions', (t) => {
  const node = {
    id: 'a',
    locality: { region: 'r', zone: '', subZone: 's' },
    metadata: { mesh: 'prod', n: 1, toString: 'x' },
  };
  const applies = (...when: readonly NodeCondition[]): boolean =>
    appliesTo({ when } as unknown as OldStyleEntrySpec, node);
  t.ok(applies());
  t.ok(applies({ field: 'metadata.mesh', equals: 'prod' }, { field: 'id', equals: 'a' }));
  t.notOk(applies({ field: 'metadata.mesh', equals: 'prod' }, { field: 'id', equals: 'b' }));
  t.ok(applies({ field: 'cluster', equals: '' }), 'a text that is absent is empty (proto3)');
  t.ok(applies({ field: 'locality', part: 'subZone', equals: 's' }));
  t.notOk(applies({ field: 'locality', part: 'zone', equals: 's' }));
  t.ok(applies({ field: 'metadata.n', equals: 1 }));
  t.notOk(applies({ field: 'metadata.n', equals: '1' }), 'a number is not a text');
  t.notOk(applies({ field: 'metadata.hasOwnProperty', equals: '' }));
  t.end();
});

t.test(
  'a condition on the locality of a Node without one compares with the empty text (proto3)',
  (t) => {
    const applies = (condition: NodeCondition): boolean =>
      appliesTo({ when: [condition] } as unknown as OldStyleEntrySpec, { id: 'a' });
    t.ok(applies({ field: 'locality', part: 'region', equals: '' }));
    t.notOk(applies({ field: 'locality', part: 'region', equals: 'r' }));
    t.notOk(applies({ field: 'locality', equals: '' }), 'a locality as a whole is not a text');
    t.end();
  },
);

t.test('13: a text of a source shows no secret that it repeats', (t) => {
  const text = 'token "eyJ.abc" of "Bearer eyJ.abc.def" is bad';
  t.equal(
    withoutSecrets(text, ['Bearer eyJ.abc.def', 'eyJ.abc']),
    'token "(hidden)" of "(hidden)" is bad',
  );
  t.equal(withoutSecrets('of token', ['of']), 'of token', 'short values are everywhere');
  t.end();
});
