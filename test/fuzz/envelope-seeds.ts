/** Initial protocol messages, encoded by code that shares nothing with the gateway's. */
import { encodeNode } from '../../protos/node-codec.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import {
  listBytes,
  locatorBytes,
  locatorEntry,
  inlineEntry,
  REDIRECT,
  textEntry,
  textLocatorBytes,
} from '../support/collection-messages.js';
import { encodeRequest, encodeResponse, encodeSotwRequest } from '../support/discovery-messages.js';
import { WRAPPING_NODE } from '../support/sotw-driver.js';
import { bytesOf, name, NAMES, THING, THINGS } from './words.js';

export const NODES: readonly Uint8Array[] = [
  encodeNode({ id: 'n', cluster: 'c', userAgentName: 'envoy', userAgentVersion: '1' }),
  encodeNode({
    id: 'node',
    cluster: 'edge',
    locality: { region: 'r', zone: 'z', subZone: 's' },
    metadata: { group: ['a', 1.5, true, null, { deep: { er: 'x' } }], other: 'text', n: 1e300 },
    dynamicParameters: { [THING]: { a: 'b' } },
    userAgentName: 'grpc',
    userAgentVersion: '',
  }),
  WRAPPING_NODE,
];

const [, , , , , , , , , ...lists] = NAMES;
const versions = { [name('a', '1')]: 'v1', [name('a', '2')]: 'v2', [name('a', 'gone')]: 'v9' };

export const DELTA_REQUESTS: readonly Uint8Array[] = [
  encodeRequest({ type_url: THING, resource_names_subscribe: [name('a', '1'), name('a', '*')] }),
  encodeRequest({ type_url: THING, response_nonce: '1' }),
  encodeRequest({ type_url: THING, response_nonce: '2', error_detail: { code: 3, message: 'no' } }),
  encodeRequest({
    type_url: THING,
    resource_names_subscribe: [name('a', '1'), name('a', '2'), name('b', '1')],
    resource_names_unsubscribe: [name('a', '2'), name('a', '*')],
    initial_resource_versions: versions,
    response_nonce: '3',
    error_detail: { code: 13, message: 'no' },
  }),
  encodeRequest({ type_url: THING, resource_names_unsubscribe: [name('a', '1'), name('a', '*')] }),
  encodeRequest({ type_url: TYPE_URL.cluster }),
  encodeRequest({ type_url: THING, resource_names_subscribe: ['*', 'old-style', 'plain/2'] }),
  encodeRequest({ type_url: THING, resource_names_subscribe: lists.slice(0, 8) }),
  encodeRequest({ type_url: TYPE_URL.clusterLoadAssignment, resource_names_subscribe: ['eds'] }),
].map(
  (bytes, at) => new Uint8Array(at % 3 === 0 ? Buffer.concat([withNode(at / 3, 1), bytes]) : bytes),
);

export const SOTW_REQUESTS: readonly Uint8Array[] = [
  encodeSotwRequest({ type_url: THING, resource_names: [name('a', '1'), name('a', '2')] }),
  encodeSotwRequest({
    type_url: THING,
    response_nonce: '1',
    version_info: 'v1',
    resource_names: [name('a', '1')],
  }),
  encodeSotwRequest({
    type_url: THING,
    response_nonce: '2',
    error_detail: { code: 3, message: 'no' },
  }),
  encodeSotwRequest({
    type_url: TYPE_URL.cluster,
    resource_names: ['*', name('a', '*', 'envoy.config.cluster.v3.Cluster')],
  }),
  encodeSotwRequest({ type_url: TYPE_URL.listener, version_info: 'of old' }),
  encodeSotwRequest({ type_url: TYPE_URL.clusterLoadAssignment, resource_names: ['eds', 'eds2'] }),
  encodeSotwRequest({ type_url: TYPE_URL.routeConfiguration, resource_names: lists.slice(0, 6) }),
].map(
  (bytes, at) => new Uint8Array(at % 2 === 0 ? Buffer.concat([withNode(at / 2, 2), bytes]) : bytes),
);

/** @param field 1 in delta requests, 2 in the others */
function withNode(which: number, field: number): Buffer {
  const node = NODES[which % NODES.length]!;
  return Buffer.concat([Buffer.from([field * 8 + 2, node.length]), node]);
}

const body = (text: string): Uint8Array => Buffer.from(text);

export const LISTS: readonly Uint8Array[] = [
  listBytes(
    locatorEntry({ id: '1', authority: 'a', resource_type: 'test.v1.Thing' }),
    locatorEntry({
      id: '5',
      authority: 'a',
      resource_type: 'test.v1.Thing',
      exact_context: { params: { a: 'b', c: 'd' } },
      directives: [{ alt: { id: '1', authority: 'b', resource_type: 'test.v1.Thing' } }],
    }),
    inlineEntry('one', THING, 'content'),
    inlineEntry('', THING, 'nameless'),
    textEntry(name('a', '2')),
  ),
  listBytes(inlineEntry('one', THING, ''), inlineEntry('one', THING, 'twice'), new Uint8Array(0)),
  listBytes(),
];

export const LOCATORS: readonly Uint8Array[] = [
  textLocatorBytes(name('a', '2')),
  textLocatorBytes(`${name('a', '1')}#alt=${name('b', '1')}`),
  locatorBytes({ id: '1', authority: 'b', resource_type: 'test.v1.Thing' }),
  locatorBytes({
    id: '5',
    authority: 'a',
    resource_type: 'test.v1.Thing',
    exact_context: { params: { a: 'b', c: 'd', e: '' } },
    directives: [
      {
        alt: {
          id: '1',
          authority: 'b',
          resource_type: 'test.v1.Thing',
          directives: [{ alt: { id: '9', authority: 'c', resource_type: 'T' } }, { entry: 'two' }],
        },
      },
      { entry: 'one' },
    ],
  }),
  locatorBytes({ scheme: 2, id: '/etc/passwd', authority: '', resource_type: '' }),
  bytesOf(name('a', '3')),
];

const sent = (id: string, version: string, more: object = {}) => ({
  name: name('a', id),
  version,
  body: body(`content of ${id}`),
  ...more,
});

export const DELTA_RESPONSES: readonly Uint8Array[] = [
  encodeResponse({ typeUrl: THING, nonce: '1', resources: [sent('1', 'v1'), sent('2', 'v2')] }),
  encodeResponse({ typeUrl: THING, nonce: '2', removed: [name('a', '1'), name('a', '*')] }),
  encodeResponse({
    typeUrl: THING,
    nonce: '3',
    resources: [
      sent('1', 'v3', { ttl: { seconds: 1, nanos: 5e8 } }),
      { name: name('a', '2'), version: 'v2' },
      { name: name('a', '3'), version: 'v1', body: LOCATORS[0]!, typeUrl: REDIRECT },
      { name: name('a', '4'), version: 'v1', body: LOCATORS[3]!, typeUrl: REDIRECT },
      { name: name('b', '1'), version: 'v1', body: body('not its own') },
    ],
    removed: [name('a', '5')],
    errors: [
      { name: name('a', '6'), code: 5, message: 'gone' },
      { name: name('a', '7'), code: 13 },
    ],
  }),
  encodeResponse({
    typeUrl: THINGS,
    nonce: '4',
    resources: LISTS.map((list, at) => ({
      name: name('a', at === 0 ? 'list' : `list${at}`, 'test.v1.ThingCollection'),
      version: 'v1',
      body: list,
    })),
  }),
  encodeResponse({ typeUrl: THING, nonce: '5' }),
  encodeResponse({
    typeUrl: THING,
    nonce: '6',
    resources: [{ name: 'old-style', version: 'v1', body: body('o') }],
  }),
].map((bytes) => new Uint8Array(bytes));
