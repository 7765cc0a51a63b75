/**
 * Goal: REST has the same requests and responses as gRPC, written as proto3 JSON, and no resource loses
 * a part on the way.
 * Method: both directions against the binary codec and against an independent protobuf library.
 */
import t from 'tap';
import { wholeOf } from '../../../protos/discovery-fields.js';
import {
  largeResourceToJson,
  requestFromJson,
  responseToJson,
  type Converted,
} from '../../../protos/rest-client-json.js';
import { decodeSotwRequest, encodeSotwResponse } from '../../../protos/sotw-codec.js';
import { bareResourceOf, encodeResourceField } from '../../../protos/resource-field.js';
import { readClientNode } from '../../../protos/node-codec.js';
import { CDS, EDS, SDS } from '../../support/mesh-names.js';
import { encode } from './envoy-messages.js';

const read = (json: unknown): Converted<Uint8Array> =>
  requestFromJson(Buffer.from(JSON.stringify(json)), 20_000);

/** The JSON of a response, and the number of steps that it took. */
function written(bytes: Uint8Array): Converted<string> & { readonly steps: number } {
  const writing = responseToJson(bytes);
  for (let steps = 0; ; steps++) {
    const { done, value } = writing.next();
    if (done !== true) continue;
    return value.ok
      ? { ok: true, value: wholeOf(value.value).toString(), steps }
      : { ...value, steps };
  }
}

/** The JSON of a response with these resources. */
function jsonOf(typeUrl: string, ...bodies: readonly Uint8Array[]): ReturnType<typeof written> {
  const resources = bodies.map((body) =>
    bareResourceOf(encodeResourceField('one', 'v', typeUrl, body)),
  );
  const errors = [{ name: 'n', status: { code: 5, message: 'gone' } }];
  const parts = { typeUrl, nonce: '7', versionInfo: 'v1', errors, resources };
  return written(wholeOf(encodeSotwResponse(parts)));
}

t.test('a request as JSON is the same request in binary form', (t) => {
  for (const json of [
    {
      versionInfo: 'v1',
      resourceNames: ['a', 'b'],
      typeUrl: CDS,
      node: { id: 'n', cluster: 'c', metadata: { zone: 'x' } },
    },
    {
      version_info: 'v1',
      resource_names: ['a', 'b'],
      type_url: CDS,
      node: { id: 'n', cluster: 'c', metadata: { zone: 'x' }, field_of_a_newer_envoy: 1 },
    },
  ]) {
    const request = read(json);
    if (!request.ok) throw new Error(request.reason);
    const decoded = decodeSotwRequest(request.value, 10);
    if (!decoded.ok) throw new Error(decoded.reason);
    const { node, ...rest } = decoded.message;
    t.match(rest, { versionInfo: 'v1', names: ['a', 'b'], typeUrl: CDS });
    t.match(readClientNode(node!, ['zone']), {
      id: 'n',
      cluster: 'c',
      metadata: { zone: 'x' },
      malformed: false,
    });
  }
  t.end();
});

t.test('what is not a request is an error, never an exception', (t) => {
  const deep = 100_000;
  for (const text of [
    '',
    '{',
    'null',
    '[]',
    '7',
    '{"resourceNames": "a"}',
    '{"resourceNames": [7]}',
    '{"node": []}',
    '[['.repeat(deep),
    `{"node":{"metadata":{"a":${'['.repeat(deep)}${']'.repeat(deep)}}}}`,
    '{"resourceNames":["\\ud800"]}',
  ]) {
    const request = requestFromJson(Buffer.from(text), 20_000);
    t.equal(request.ok, false, text.slice(0, 40));
    t.ok(!request.ok && request.reason.length > 0);
  }
  t.end();
});

t.test(
  'a request may have thousands of names, and an Envoy its extensions, but no million values',
  (t) => {
    const fits = {
      resource_names: Array.from({ length: 20_000 }, () => 'name'),
      node: {
        extensions: Array.from({ length: 1_500 }, () => ({
          name: 'e',
          category: 'c',
          version: {},
        })),
      },
    };
    t.match(read(fits), { ok: true });
    const listening = Array.from({ length: 5_000 }, () => ({ pipe: { path: 'p' } }));
    for (const node of [
      { metadata: { a: Array.from({ length: 20_000 }, () => 1) } },
      { metadata: Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`k${at}`, 1])) },
      { listeningAddresses: listening },
      { metadata: { a: Array.from({ length: 50_000 }, () => 1) } },
      { metadata: { a: Array.from({ length: 30_000 }, () => ({})) } },
    ]) {
      t.match(read({ node }), {
        ok: false,
        reason: /more than 10000 values/,
      });
    }
    t.end();
  },
);

t.test('a response is proto3 JSON, with the whole resource and its @type', (t) => {
  const name = 'one';
  const json = jsonOf(CDS, encode('envoy.config.cluster.v3.Cluster', { name, alt_stat_name: 'x' }));
  if (!json.ok) throw new Error(json.reason);
  t.strictSame(JSON.parse(json.value), {
    versionInfo: 'v1',
    typeUrl: CDS,
    nonce: '7',
    resources: [{ '@type': CDS, name, altStatName: 'x' }],
  });
  t.end();
});

t.test('each step writes one resource, and the chunks make one text', (t) => {
  const names = Array.from({ length: 3_000 }, (_, at) => `cluster ${at}`);
  const json = jsonOf(
    CDS,
    ...names.map((name) => encode('envoy.config.cluster.v3.Cluster', { name })),
  );
  if (!json.ok) throw new Error(json.reason);
  t.equal(json.steps, names.length);
  const { resources } = JSON.parse(json.value) as { resources: { name: string }[] };
  t.strictSame(
    resources.map(({ name }) => name),
    names,
  );
  t.strictSame(JSON.parse((jsonOf(CDS) as { value: string }).value), {
    resources: [],
    versionInfo: 'v1',
    typeUrl: CDS,
    nonce: '7',
  });
  t.end();
});

t.test('a Secret is sent in full: it is for its client, not for an operator', (t) => {
  const secret = { name: 's', generic_secret: { secret: { inline_string: 'hidden' } } };
  const type = 'envoy.extensions.transport_sockets.tls.v3.Secret';
  const json = jsonOf(SDS, encode(type, secret));
  t.match(json, { ok: true, value: /hidden/ });
  t.end();
});

t.test(
  'a resource of an unknown type, or with an unknown field at any depth, is an error that names it',
  (t) => {
    const field = Buffer.from([0xc2, 0x3e, 1, 0x41]); // Field 1000, a text.
    const cluster = encode('envoy.config.cluster.v3.Cluster', { name: 'one' });
    t.match(jsonOf('type.googleapis.com/no.such.Type', cluster), {
      ok: false,
      reason: /no\.such\.Type/,
    });
    t.match(jsonOf(CDS, Buffer.concat([cluster, field])), {
      ok: false,
      reason: /Cluster has the field 1000/,
    });
    // `common_lb_config` (27) with the field.
    const nested = Buffer.concat([Buffer.from([0xda, 1, field.length]), field]);
    t.match(jsonOf(CDS, Buffer.concat([cluster, nested])), {
      ok: false,
      reason: /CommonLbConfig has the field 1000/,
    });
    // `transport_socket` (24) with a `typed_config` (3) of an unknown type.
    const any = Buffer.concat([Buffer.from([0x0a, 12]), Buffer.from('t/no.such.An')]);
    const socket = Buffer.concat([Buffer.from([0x1a, any.length]), any]);
    const inAny = Buffer.concat([Buffer.from([0xc2, 1, socket.length]), socket]);
    t.match(jsonOf(CDS, Buffer.concat([cluster, inAny])), { ok: false, reason: /no\.such\.An/ });
    t.end();
  },
);

t.test('bytes that are not a response are an error', (t) => {
  t.match(written(Buffer.from([0xff])), { ok: false, reason: /malformed/ });
  t.equal(written(Buffer.from([0x0a, 1, 0xff])).ok, false, 'no UTF-8');
  t.end();
});

t.test('a large resource may be written elsewhere, and is the same', (t) => {
  const type = 'envoy.config.endpoint.v3.ClusterLoadAssignment';
  const endpoint = { health_status: 1, load_balancing_weight: { value: 7 } };
  const lb_endpoints = Array<typeof endpoint>(10_000).fill(endpoint);
  const large = encode(type, { cluster_name: 'a', endpoints: [{ lb_endpoints }] });
  const small = encode(type, { cluster_name: 'b' });
  const resources = [small, large, small].map((body) =>
    bareResourceOf(encodeResourceField('one', 'v', EDS, body)),
  );
  const parts = { typeUrl: EDS, nonce: '7', versionInfo: 'v1', errors: [], resources };
  const bytes = wholeOf(encodeSotwResponse(parts));
  const inPlace = written(bytes);
  const writing = responseToJson(bytes);
  let elsewhere = 0;
  let next = writing.next();
  while (next.done !== true) {
    if (next.value) elsewhere++;
    next = writing.next(next.value && largeResourceToJson(next.value));
  }
  t.equal(elsewhere, 1);
  t.equal(next.value.ok && wholeOf(next.value.value).toString(), inPlace.ok && inPlace.value);
  t.match(JSON.parse(inPlace.ok ? inPlace.value : ''), { resources: [{}, {}, {}] });
  const refused = responseToJson(bytes);
  refused.next();
  refused.next();
  const reason = 'the thread ended';
  t.strictSame(refused.next({ ok: false, reason }), { done: true, value: { ok: false, reason } });
  t.end();
});
