/**
 * Goal: requests and responses of the REST variant mean the same as on a stream (xDS protocol, "REST").
 * Method: JSON as servers and Envoy write it, against the codec of the stream.
 */
import t from 'tap';
import {
  discoveryRequestToJson,
  discoveryResponseFromJson,
  largeResourceFromJson,
} from '../../../protos/rest-source-json.js';
import { redactedJson } from '../../../protos/json-resources.js';
import { encodeNode } from '../../../protos/node-codec.js';
import { decodeSotwResponse, encodeSotwRequest } from '../../../protos/sotw-codec.js';
import { finished } from '../../support/finished.js';
import { TYPE_URL } from '../../../protos/type-urls.js';

const CDS = TYPE_URL.cluster;
const EDS = TYPE_URL.clusterLoadAssignment;

function read(value: unknown, typeUrl: string = CDS) {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const result = finished(discoveryResponseFromJson(text, typeUrl, 'made'));
  if (!result.ok) return result.reason;
  const decoded = decodeSotwResponse(result.message.bytes, 100);
  if (!decoded.ok) throw new Error(decoded.reason);
  return { ...decoded.message, hasTtl: result.message.hasTtl };
}

t.test('a request has the field names that Envoy writes', (t) => {
  const bytes = encodeSotwRequest({
    typeUrl: CDS,
    names: ['a', 'b'],
    versionInfo: '7',
    responseNonce: '',
    node: encodeNode({
      ...{ id: 'gw', cluster: 'edge', metadata: { team: 'x' } },
      ...{ userAgentName: 'tributary', userAgentVersion: '1' },
    }),
    errorDetail: { code: 3, message: 'bad' },
  });
  t.match(JSON.parse(discoveryRequestToJson(bytes)), {
    version_info: '7',
    resource_names: ['a', 'b'],
    type_url: CDS,
    node: { id: 'gw', cluster: 'edge', metadata: { team: 'x' } },
    error_detail: { code: 3, message: 'bad' },
  });
  t.end();
});

t.test('a response gives its resources, bare or in a wrapper, in either spelling of names', (t) => {
  const response = read({
    versionInfo: '7',
    nonce: 'n',
    resources: [
      { '@type': CDS, name: 'a', connect_timeout: '1s' },
      {
        '@type': TYPE_URL.resource,
        name: 'b',
        ttl: '30s',
        resource: { '@type': CDS, name: 'b', connectTimeout: '2s' },
      },
    ],
  });
  if (typeof response === 'string') throw new Error(response);
  t.match(response, { versionInfo: '7', nonce: 'n', typeUrl: CDS, hasTtl: true });
  const [a, b] = response.resources;
  t.match(a, { name: 'a', typeUrl: CDS, ttlMs: undefined });
  t.match(b, { name: 'b', typeUrl: CDS, ttlMs: 30_000 });
  t.match(redactedJson(CDS, b?.body ?? new Uint8Array()), { connect_timeout: '2s' });
  t.end();
});

t.test('absent fields are filled in: a response may be an empty object', (t) => {
  for (const value of [{}, { type_url: '', resources: null, nonce: '' }, { typeUrl: CDS }]) {
    t.match(read(value), { typeUrl: CDS, nonce: 'made', resources: [], hasTtl: false });
  }
  t.end();
});

t.test('unknown fields are ignored, in the response and in its resources', (t) => {
  const response = read({
    version_info: '1',
    newer: 1,
    resources: [{ '@type': CDS, name: 'a', newer: { x: 1 }, alt_stat_name: 'kept' }],
  });
  if (typeof response === 'string') throw new Error(response);
  const body = response.resources[0]?.body ?? new Uint8Array();
  t.strictSame(redactedJson(CDS, body), { '@type': CDS, name: 'a', alt_stat_name: 'kept' });
  t.end();
});

t.test('a resource that cannot be encoded keeps its name, and has the reason as its type', (t) => {
  const response = read({
    resources: [
      { '@type': CDS, name: 'good' },
      { '@type': CDS, name: 'nested', typed_extension_protocol_options: { x: { '@type': 'a/b' } } },
      { '@type': 'type.googleapis.com/acme.Thing', name: 'unknown' },
      { '@type': TYPE_URL.resource, name: 'wrapped', resource: { '@type': 'a/b' } },
      { '@type': CDS, name: 'value', connect_timeout: 'soon' },
      { '@type': 'a/b', resource: { cluster_name: 'inner' } },
      'text',
    ],
  });
  if (typeof response === 'string') throw new Error(response);
  t.strictSame(
    response.resources.map(({ name, typeUrl }) => [name, typeUrl === CDS]),
    [
      ['good', true],
      ['nested', false],
      ['unknown', false],
      ['wrapped', false],
      ['value', false],
      ['inner', false],
      ['', false],
    ],
  );
  t.match(response.resources[2]?.typeUrl, /unreadable JSON \(@type: .*acme\.Thing.* is not a type/);
  t.match(response.resources[4]?.typeUrl, /connect_timeout/);
  t.notMatch(response.resources[4]?.typeUrl, 'soon', 'values may be secrets');
  t.end();
});

t.test('a body that is not a response to the request is refused', (t) => {
  t.match(read('{'), /JSON/);
  t.notMatch(read('{ secret-text'), /secret/);
  t.notMatch(read({ version_info: ['secret-text'] }), /secret/);
  t.match(read('[]'), /not a JSON object/);
  t.match(read({ resources: {} }), /resources is not a list/);
  t.match(read({ type_url: TYPE_URL.listener }), /about .*Listener/);
  t.match(read({ version_info: 7 }), /version_info/);
  t.end();
});

t.test('the length of a large resource is encoded', (t) => {
  const response = read({ resources: [{ '@type': CDS, name: 'x'.repeat(20_000) }] });
  t.match(response, { resources: [{ name: /^x{20000}$/ }] });
  t.end();
});

t.test('a large resource may be read elsewhere, and is the same', (t) => {
  const lbEndpoints = Array.from({ length: 10_000 }, () => ({ health_status: 'HEALTHY' }));
  const large = { '@type': EDS, cluster_name: 'a', endpoints: [{ lb_endpoints: lbEndpoints }] };
  const text = JSON.stringify({ resources: [{ '@type': EDS, cluster_name: 'b' }, large] });
  const reading = discoveryResponseFromJson(text, EDS, 'made');
  let elsewhere = 0;
  let next = reading.next();
  while (next.done !== true) {
    if (next.value !== undefined) elsewhere++;
    next = reading.next(next.value === undefined ? undefined : largeResourceFromJson(next.value));
  }
  t.equal(elsewhere, 1);
  t.strictSame(next.value, finished(discoveryResponseFromJson(text, EDS, 'made')));
  t.ok(next.value.ok);
  const broken = discoveryResponseFromJson(text, EDS, 'made');
  while (broken.next().value === undefined);
  const reason = 'the thread ended';
  const refused = { ok: false, code: 'malformed', reason };
  t.strictSame(broken.next({ ok: false, reason }), { done: true, value: refused });
  t.end();
});
