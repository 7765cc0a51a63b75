/**
 * Goal: the Node and the map put a client into a node group, or the client is refused with a
 * reason.
 */
import t from 'tap';
import type { OldStyleSpec } from '../../../../../config/model.js';
import {
  clientScopeOf,
  readGroupedNode,
} from '../../../../../gateway/core/session/client-scope.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { encodeNode, type NodeFields } from '../../../../../protos/node-codec.js';
import type { NodeField } from '../../../../../protos/node-scope.js';

const room = { maxNodeGroups: 2, scopeCount: 0, hasScope: () => false };
const nodeOf = (fields: Partial<NodeFields>): Uint8Array =>
  encodeNode({ id: 'a', cluster: 'c', userAgentName: '', userAgentVersion: '', ...fields });
const specOf = (...differBy: readonly NodeField[]): OldStyleSpec => ({ differBy, servedBy: [] });

const scopeText = (fields: Partial<NodeFields>, ...differBy: readonly NodeField[]): string => {
  const spec = specOf(...differBy);
  const scope = clientScopeOf(readGroupedNode(nodeOf(fields), spec), spec, room);
  return scope.kind === 'scope' ? scope.scope : JSON.stringify(scope);
};

t.test('the scope contains the fields of `differ_by`, and nothing else', (t) => {
  t.equal(scopeText({}), '', 'the same for every client');
  t.equal(scopeText({}, 'id'), '{"id":"a"}');
  t.equal(scopeText({}, 'cluster', 'id'), '{"cluster":"c","id":"a"}');
  t.equal(
    scopeText({ metadata: { team: 'x', other: 'y' } }, 'metadata.team', 'metadata.none'),
    '{"metadata":{"none":null,"team":"x"}}',
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
  t.equal(codeOf(nodeOf({ id: 'x'.repeat(2_000) })), STATUS_CODE.invalidArgument, 'too long');
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
