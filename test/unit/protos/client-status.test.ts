/** Goal: the messages of CSDS are read and written as csds.proto has them. Method: Envoy's descriptors. */
import { create, fromBinary, toBinary, toJson, type JsonValue } from '@bufbuild/protobuf';
import fc from 'fast-check';
import t from 'tap';
import {
  decodeClientStatusRequest,
  encodeClientConfig,
  encodeStatusRow,
  matchesText,
  type ResourceStatusRow,
} from '../../../protos/client-status.js';
import { envoyRegistry } from '../../../protos/envoy-registry.js';
import { TYPE_URL } from '../../../protos/type-urls.js';

const PACKAGE = 'envoy.service.status.v3';
const descOf = (name: string) => envoyRegistry().getMessage(`${PACKAGE}.${name}`)!;

const request = (init: object): Uint8Array => {
  const desc = descOf('ClientStatusRequest');
  return toBinary(desc, create(desc, init as Record<string, unknown>));
};
const byId = (matcher: object) => ({ nodeId: { matchPattern: matcher } });

t.test('an empty request asks for all clients with the contents of their resources', (t) => {
  const decoded = decodeClientStatusRequest(new Uint8Array());
  t.strictSame(decoded, { ok: true, message: { nodeIds: [], excludesContents: false } });
  t.end();
});

t.test('node_matchers choose clients by the ids of their Nodes', (t) => {
  const nodeMatchers = [
    byId({ case: 'exact', value: 'a' }),
    { nodeId: { matchPattern: { case: 'prefix', value: 'b' }, ignoreCase: true } },
    byId({ case: 'suffix', value: 'c' }),
    byId({ case: 'contains', value: 'd' }),
  ];
  const node = { extensions: [{ typedConfig: { typeUrl: 'un/known', value: Buffer.from('x') } }] };
  const bytes = request({ nodeMatchers, node, excludeResourceContents: true });
  t.strictSame(decodeClientStatusRequest(bytes), {
    ok: true,
    message: {
      nodeIds: [
        { kind: 'exact', text: 'a', ignoresCase: false },
        { kind: 'prefix', text: 'b', ignoresCase: true },
        { kind: 'suffix', text: 'c', ignoresCase: false },
        { kind: 'contains', text: 'd', ignoresCase: false },
      ],
      excludesContents: true,
    },
  });
  t.end();
});

t.test('a matcher that the gateway cannot apply is an error, not a wider choice', (t) => {
  const regex = byId({ case: 'safeRegex', value: { regex: '.*' } });
  const metadata = { ...byId({ case: 'exact', value: 'a' }), nodeMetadatas: [{}] };
  for (const matcher of [regex, metadata, {}]) {
    const decoded = decodeClientStatusRequest(request({ nodeMatchers: [matcher] }));
    t.match(decoded, { ok: false, code: 'malformed', reason: /node_id has|metadata/ });
  }
  t.match(decodeClientStatusRequest(Buffer.from([0xff])), { ok: false });
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      decodeClientStatusRequest(bytes);
    }),
  );
  t.end();
});

t.test('a matcher fits exactly, at the start, at the end, or inside, with or without case', (t) => {
  const fits = (kind: 'exact' | 'prefix' | 'suffix' | 'contains', text: string, id: string) =>
    matchesText({ kind, text, ignoresCase: false }, id);
  t.strictSame([fits('exact', 'ab', 'ab'), fits('exact', 'ab', 'abc')], [true, false]);
  t.strictSame([fits('prefix', 'ab', 'abc'), fits('prefix', 'bc', 'abc')], [true, false]);
  t.strictSame([fits('suffix', 'bc', 'abc'), fits('suffix', 'ab', 'abc')], [true, false]);
  t.strictSame([fits('contains', 'b', 'abc'), fits('contains', 'd', 'abc')], [true, false]);
  t.equal(fits('exact', 'AB', 'ab'), false);
  t.equal(matchesText({ kind: 'exact', text: 'AB', ignoresCase: true }, 'aB'), true);
  t.end();
});

const row = (change: Partial<ResourceStatusRow>): Uint8Array =>
  encodeStatusRow({
    typeUrl: TYPE_URL.cluster,
    name: 'web',
    version: 'v1',
    status: 'SYNCED',
    clientStatus: 'ACKED',
    ...change,
  });

t.test('the encoded clients, one after the other, are the response', (t) => {
  const refused = { details: 'no such filter', atMs: Date.parse('2026-11-23T05:00:00.25Z') };
  const content = { typeUrl: TYPE_URL.cluster, value: Buffer.from([0x0a, 3, 119, 101, 98]) };
  const response = Buffer.concat([
    encodeClientConfig({ id: 'node-1', cluster: 'edge' }, 'ADS delta of peer', [
      row({ content }),
      row({ status: 'ERROR', clientStatus: 'NACKED', error: refused }),
      row({ version: '', status: 'NOT_SENT', clientStatus: 'REQUESTED' }),
      row({ status: 'STALE', clientStatus: 'UNKNOWN' }),
    ]),
    encodeClientConfig(undefined, '', []),
  ]);
  const desc = descOf('ClientStatusResponse');
  const shown = toJson(desc, fromBinary(desc, response), { registry: envoyRegistry() });
  const common = { typeUrl: TYPE_URL.cluster, name: 'web' };
  const expected: JsonValue = {
    config: [
      {
        node: { id: 'node-1', cluster: 'edge' },
        clientScope: 'ADS delta of peer',
        genericXdsConfigs: [
          {
            ...common,
            versionInfo: 'v1',
            xdsConfig: { '@type': TYPE_URL.cluster, name: 'web' },
            configStatus: 'SYNCED',
            clientStatus: 'ACKED',
          },
          {
            ...common,
            versionInfo: 'v1',
            configStatus: 'ERROR',
            clientStatus: 'NACKED',
            errorState: {
              lastUpdateAttempt: '2026-11-23T05:00:00.250Z',
              details: 'no such filter',
              versionInfo: 'v1',
            },
          },
          { ...common, configStatus: 'NOT_SENT', clientStatus: 'REQUESTED' },
          { ...common, versionInfo: 'v1', configStatus: 'STALE' },
        ],
      },
      {},
    ],
  };
  t.strictSame(shown, expected);
  t.end();
});
