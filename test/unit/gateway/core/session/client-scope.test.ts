/**
 * Goal: the Node and the map put a client into a node group, or the client is refused with a
 * reason.
 */
import t from 'tap';
import type { ClientCertificate } from '../../../../../authorities/index.js';
import { DEFAULT_FAILOVER } from '../../../../../config/defaults.js';
import type { OldStyleSpec } from '../../../../../config/model.js';
import {
  clientScopeOf,
  readGroupedNode,
} from '../../../../../gateway/core/session/client-scope.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { SEND_ALL_CLUSTERS_FEATURE } from '../../../../../protos/load-stats.js';
import { withClientFeature } from '../../../../../protos/load-stats-codec.js';
import { encodeNode, type NodeFields } from '../../../../../protos/node-codec.js';
import { ruleOfFields, type NodeField, type ScopeRule } from '../../../../../protos/node-scope.js';

const room = { maxNodeGroups: 2, scopeCount: 0, hasScope: () => false };
const nodeOf = (fields: Partial<NodeFields>): Uint8Array =>
  encodeNode({ id: 'a', cluster: 'c', userAgentName: '', userAgentVersion: '', ...fields });
const specOf = (...differBy: readonly NodeField[]): OldStyleSpec => ({ differBy, servedBy: [] });

const scopeText = (fields: Partial<NodeFields>, ...differBy: readonly NodeField[]): string => {
  const spec = specOf(...differBy);
  const scope = clientScopeOf(readGroupedNode(nodeOf(fields), spec), spec, room);
  return scope.kind === 'scope' ? scope.scope : JSON.stringify(scope);
};

const ruled = (rule: Partial<ScopeRule>): OldStyleSpec => ({
  differBy: [],
  servedBy: [],
  rule: { ...ruleOfFields([]), ...rule },
});
const textOf = (
  spec: OldStyleSpec,
  fields: Partial<NodeFields>,
  headers: Readonly<Record<string, readonly string[]>> = {},
  certificate?: ClientCertificate,
): string => {
  const connection = { headerValues: (key: string) => headers[key] ?? [], certificate };
  const scope = clientScopeOf(readGroupedNode(nodeOf(fields), spec, connection), spec, room);
  return scope.kind === 'scope' ? scope.scope : JSON.stringify(scope);
};

t.test(
  'the gateway keeps 1,024 characters of each text of a Node, and nothing of one that it refuses',
  (t) => {
    const long = 'é'.repeat(100_000);
    const fields = { id: long, cluster: long, userAgentName: long };
    const { node, identity, isTooLarge } = readGroupedNode(nodeOf(fields), specOf());
    t.strictSame([node.id, node.cluster, node.userAgentName], Array(3).fill('é'.repeat(1_024)));
    t.ok(node.isIdCut);
    t.notOk(readGroupedNode(nodeOf({ id: 'é'.repeat(1_024) }), specOf()).node.isIdCut);
    t.strictSame([identity.fields, isTooLarge], [{}, false]);
    const refused = readGroupedNode(nodeOf({ id: 'x'.repeat(300_000) }), specOf('id'));
    t.strictSame([refused.identity.fields, refused.isTooLarge], [{}, true]);
    t.end();
  },
);

t.test('the scope contains the fields of `differ_by`, and nothing else', (t) => {
  t.equal(scopeText({}), '', 'the same for every client');
  t.equal(scopeText({}, 'id'), '{"id":"a"}');
  t.equal(scopeText({}, 'cluster', 'id'), '{"cluster":"c","id":"a"}');
  t.equal(
    scopeText({ metadata: { team: 'x', other: 'y' } }, 'metadata.team', 'metadata.none'),
    '{"metadata":{"team":"x"},"without":["none"]}',
  );
  t.equal(
    scopeText({ locality: { region: 'r', zone: 'z', subZone: '' } }, 'locality'),
    '{"locality":{"region":"r","subZone":"","zone":"z"}}',
  );
  t.equal(scopeText({}, 'locality'), '{"locality":{"region":"","subZone":"","zone":""}}');
  t.end();
});

t.test('metadata is compared by value, not by order', (t) => {
  const one = { metadata: { team: { b: [1, { d: true, c: null }], a: 'x' } } };
  const other = { metadata: { team: { a: 'x', b: [1, { c: null, d: true }] } } };
  t.equal(scopeText(one, 'metadata.team'), scopeText(other, 'metadata.team'));
  t.end();
});

t.test('a client without a Node is in the group of an empty Node', (t) => {
  const spec = specOf('id');
  const scope = clientScopeOf(readGroupedNode(undefined, spec), spec, room);
  t.strictSame(scope, { kind: 'scope', scope: '{"id":""}' });
  t.end();
});

t.test(
  'a client without a Node is in the group of an empty Node also if the whole Node counts',
  (t) => {
    const scopeFor = (spec: OldStyleSpec, bytes: Uint8Array | undefined): unknown =>
      clientScopeOf(readGroupedNode(bytes, spec), spec, room);
    for (const spec of [{ differBy: 'all', servedBy: [] } as const, ruled({ forward: 'all' })]) {
      const { identity, digest } = readGroupedNode(undefined, spec);
      t.strictSame(Buffer.from(identity.node!), Buffer.alloc(0), 'a source gets an empty Node');
      t.strictSame(digest, readGroupedNode(new Uint8Array(), spec).digest);
      t.match(scopeFor(spec, undefined), { kind: 'scope' });
      t.strictSame(scopeFor(spec, undefined), scopeFor(spec, new Uint8Array()));
    }
    t.end();
  },
);

t.test(
  'the streams of one client are in one group if the whole Node counts, whatever features belong to one of them (SPEC.md, "Load reports")',
  (t) => {
    const spec = { differBy: 'all', servedBy: [] } as const;
    const scopeWith = (...features: readonly string[]): unknown => {
      const bytes = features.reduce(withClientFeature, nodeOf({}));
      return clientScopeOf(readGroupedNode(bytes, spec), spec, room);
    };
    const [content, wrapper] = [
      'envoy.lb.does_not_support_overprovisioning',
      'xds.config.resource-in-sotw',
    ];
    const resources = scopeWith(content, wrapper);
    t.strictSame(scopeWith(content, SEND_ALL_CLUSTERS_FEATURE), resources, 'load reports');
    t.strictSame(scopeWith(content), resources, 'delta');
    t.strictNotSame(scopeWith(wrapper), resources, 'a feature that sources get');
    t.end();
  },
);

t.test('a client has no headers and no certificate if its connection brings none', (t) => {
  const spec = ruled({ headers: ['authorization'], certificate: 'whole' });
  const { identity } = readGroupedNode(nodeOf({}), spec);
  t.equal(identity.headers.reveal().size, 0);
  t.equal(identity.certificate, undefined);
  const scope = clientScopeOf(readGroupedNode(nodeOf({}), spec), spec, room);
  t.strictSame(scope, { kind: 'scope', scope: textOf(spec, {}) });
  t.end();
});

t.test('a map without old-style names puts no client into a group', (t) => {
  const node = readGroupedNode(nodeOf({}), undefined);
  t.strictSame(clientScopeOf(node, undefined, room), { kind: 'not_served' });
  t.end();
});

t.test('a client that fits no group is refused with the reason', (t) => {
  const spec = specOf('id');
  const codeOf = (
    bytes: Uint8Array,
    readFor: OldStyleSpec = spec,
    held: Partial<typeof room> = {},
  ): unknown => {
    const scope = clientScopeOf(readGroupedNode(bytes, readFor), spec, { ...room, ...held });
    return scope.kind === 'refused' ? scope.status.code : scope;
  };
  t.equal(codeOf(Buffer.from([0xff])), STATUS_CODE.invalidArgument, 'not a Node');
  t.equal(codeOf(nodeOf({ id: 'x'.repeat(300_000) })), STATUS_CODE.invalidArgument, 'too long');
  t.equal(codeOf(nodeOf({}), specOf('cluster')), STATUS_CODE.unavailable, 'read for another map');
  t.equal(codeOf(nodeOf({}), spec, { scopeCount: 2 }), STATUS_CODE.resourceExhausted, 'too many');
  t.match(codeOf(nodeOf({}), spec, { scopeCount: 2, hasScope: () => true }), { kind: 'scope' });
  t.match(
    clientScopeOf(readGroupedNode(Buffer.from([0xff]), specOf()), specOf(), room),
    { kind: 'scope', scope: '' },
    'without differing fields the Node does not matter',
  );
  t.end();
});

t.test('a client beyond the limit of node groups learns which fields make a group', (t) => {
  const messageOf = (spec: OldStyleSpec): unknown => {
    const full = { ...room, scopeCount: 2 };
    const scope = clientScopeOf(readGroupedNode(nodeOf({}), spec), spec, full);
    return scope.kind === 'refused' ? scope.status.message : scope;
  };
  t.equal(
    messageOf(specOf('id', 'cluster')),
    'more than 2 node groups (old_style_names.differ_by: id, cluster)',
  );
  t.equal(
    messageOf({ differBy: 'all', servedBy: [] }),
    'more than 2 node groups (old_style_names.differ_by: all)',
  );
  t.equal(
    messageOf(
      ruled({ fields: ['id'], headers: ['authorization', 'x-team'], certificate: 'names' }),
    ),
    'more than 2 node groups (old_style_names.differ_by: id; headers: authorization, x-team; client certificates)',
    'keys of headers, and no values',
  );
  t.end();
});

t.test('a metadata value null differs from no value', (t) => {
  const spec = specOf('metadata.team');
  t.equal(textOf(spec, { metadata: { team: null } }), '{"metadata":{"team":null}}');
  t.equal(textOf(spec, {}), '{"without":["team"]}');
  t.end();
});

t.test('fields of 64 KiB make a group whose scope is short', (t) => {
  const spec = specOf('id', 'metadata.team');
  const long = 'x'.repeat(65_536);
  const scope = textOf(spec, { metadata: { team: long } });
  t.match(scope, /^a#[0-9a-f]{64}$/);
  t.equal(textOf(spec, { metadata: { team: long } }), scope);
  t.not(textOf(spec, { metadata: { team: `${long}y` } }), scope);
  t.end();
});

t.test('a header of a client is part of its group, and its value is not in the scope', (t) => {
  const spec = ruled({ fields: ['id'], headers: ['authorization'] });
  const one = textOf(spec, {}, { authorization: ['Bearer one-token'] });
  t.match(one, /^a#[0-9a-f]{64}$/);
  t.equal(textOf(spec, {}, { authorization: ['Bearer one-token'], other: ['x'] }), one);
  t.not(textOf(spec, {}, { authorization: ['Bearer one-tokeN'] }), one);
  t.not(textOf(spec, {}), one, 'a client without the header');
  t.not(textOf(spec, {}, { authorization: ['Bearer one-token', ''] }), one, 'one more value');
  t.end();
});

t.test(
  'a renewed certificate with the same names is the same group, unless it is forwarded',
  (t) => {
    const first = {
      sha256: 'aa',
      subject: 'CN=a',
      uris: ['spiffe://mesh/a'],
      dnsNames: ['a'],
      by: ['spiffe://mesh/gateway'],
    };
    const renewed = { ...first, sha256: 'bb' };
    const other = { ...first, uris: ['spiffe://mesh/b'] };
    const elsewhere = { ...first, by: ['spiffe://mesh/gateway-2'] };
    for (const certificate of ['names', 'whole'] as const) {
      const spec = ruled({ fields: ['id'], certificate });
      const scope = textOf(spec, {}, {}, first);
      t.equal(textOf(spec, {}, {}, renewed) === scope, certificate === 'names', certificate);
      t.not(textOf(spec, {}, {}, other), scope);
      t.not(textOf(spec, {}), scope, 'a client without a certificate');
      t.equal(textOf(spec, {}, {}, elsewhere), scope, 'the same at every instance');
    }
    t.end();
  },
);

t.test('`for` chooses the entries of a client, and a client without an entry is told so', (t) => {
  const entry = { sources: ['s'], alternatives: [], failover: DEFAULT_FAILOVER } as const;
  const spec: OldStyleSpec = {
    ...ruled({ fields: ['id', 'metadata.MESH'], forward: ['id'] }),
    servedBy: [
      {
        ...entry,
        name: 'old-style/0',
        ignoreDeletion: false,
        types: undefined,
        when: [{ field: 'metadata.MESH', equals: 'prod' }],
      },
    ],
  };
  t.equal(
    textOf(spec, { metadata: { MESH: 'prod' } }),
    '{"forward":["id"],"id":"a","metadata":{"MESH":"prod"}}',
  );
  t.match(
    textOf(spec, { metadata: { MESH: 'test' } }),
    /not_served.*no \\"for\\" matches its Node/,
  );
  t.match(textOf(spec, {}), /not_served/);
  t.end();
});

t.test('a Node that a source gets whole is kept as received, and bounded', (t) => {
  const spec = ruled({ fields: ['id'], forward: 'all' });
  const bytes = nodeOf({ metadata: { deep: { a: [null, 1] } } });
  const { identity } = readGroupedNode(bytes, spec);
  t.strictSame(Buffer.from(identity.node ?? []), Buffer.from(bytes));
  t.not(identity.node, bytes, 'a copy: the bytes are valid for one turn');
  t.match(textOf(spec, { metadata: { a: 'x'.repeat(300_000) } }), /the Node exceeds 256 KiB/);
  t.equal(textOf(spec, { metadata: { a: 'x'.repeat(65_536) } }), '{"forward":"all","id":"a"}');
  t.equal(
    readGroupedNode(bytes, specOf('id')).identity.node,
    undefined,
    'where no source needs it',
  );
  t.end();
});

t.test('with `differ_by: all`, every part of the Node counts, in any order', (t) => {
  const spec: OldStyleSpec = { differBy: 'all', servedBy: [] };
  const one = textOf(spec, { metadata: { a: '1', b: { c: 2, d: 3 } } });
  t.match(one, /^a#[0-9a-f]{64}$/);
  t.equal(textOf(spec, { metadata: { b: { d: 3, c: 2 }, a: '1' } }), one);
  t.not(textOf(spec, { metadata: { a: '1', b: { c: 2, d: 4 } } }), one);
  t.not(textOf(spec, { metadata: { a: '1', b: { c: 2, d: 3 } }, userAgentVersion: '2' }), one);
  const broken = clientScopeOf(readGroupedNode(Buffer.from([0x1a, 9]), spec), spec, room);
  t.match(broken, { kind: 'refused', status: { code: STATUS_CODE.invalidArgument } });
  t.end();
});
