/**
 * Goal: the look-alike of Consul serves real Envoys as Consul does, and refuses the clients that Consul
 * refuses. This is the baseline for such a control plane behind the gateway.
 * Method: the look-alike in control-plane/like_consul.go, Envoys connected directly with a token each,
 * traffic; a stream of its own for requests that no Envoy sends.
 */
import t, { type Test } from 'tap';

import { decodeResponse, encodeRequest } from '../../support/discovery-messages.js';
import { TYPE_URLS } from '../../support/mesh.js';
import { stoppedWith } from '../../support/stopped-with.js';
import { until } from '../../support/until.js';
import { ControlPlane } from '../peers/control-plane.js';
import { Envoy, type EnvoyOptions } from '../peers/envoy.js';
import { startHttpBackend } from '../peers/http-backend.js';
import {
  changesArrive,
  isApart,
  nothingLost,
  plainMesh,
  startClient,
} from '../peers/plain-mesh.js';
import { skipWithout } from '../peers/provisioned.js';
import { openRawStream, type RawStream } from '../peers/raw-stream.js';

t.setTimeout(120_000);

const skip = skipWithout('envoy', 'control-plane');
const deltaAds = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources';

/** The headers of a proxy with this token; by default its own. */
function proxy(nodeId: string, token = `secret-of-${nodeId}`) {
  return { nodeId, headers: token === '' ? {} : { 'x-consul-token': token } };
}

async function startRig(t: Test) {
  const plane = await stoppedWith(t, ControlPlane.start({ like: 'consul' }));
  const backend = await stoppedWith(t, startHttpBackend('cloud'));
  const [web, api] = [await plainMesh('web', backend.port), await plainMesh('api', backend.port)];
  await plane.setResources(web.resources, 'web-1');
  await plane.setResources(api.resources, 'api-1');
  return { plane, web, api };
}

t.test(
  'delta: a proxy with its own token gets its own content, and changes arrive (Consul)',
  { skip },
  async (t) => {
    const { plane, web, api } = await startRig(t);
    const { xdsPort } = plane;
    const first = await startClient(t, web, { xdsPort, ...proxy('web-1') });
    const second = await startClient(t, api, { xdsPort, ...proxy('api-1') });
    await Promise.all([first, second].map(({ traffic }) => traffic.untilOnly('cloud')));
    await isApart(t, first, web, api);
    await isApart(t, second, api, web);
    await changesArrive(t, first, web, (resources) => plane.setResources(resources, 'web-1'));
    const stream = await plane.waitForStream('web-1 is connected', (s) => s.nodeId === 'web-1');
    t.match(stream.node, { userAgentName: 'envoy', userAgentBuildVersion: { version: {} } });
    t.strictSame(stream.headers['x-consul-token'], ['secret-of-web-1']);
    t.equal(stream.types[TYPE_URLS.assignment]?.sentRemovals, 0, 'nothing by name is removed');
    await nothingLost(t, first);
    await nothingLost(t, second);
  },
);

t.test('it refuses proxies as Consul does', { skip }, async (t) => {
  const { plane } = await startRig(t);
  const cases: readonly (readonly [string, Partial<EnvoyOptions>, string])[] = [
    ['without a token', proxy('web-1', ''), 'PermissionDenied'],
    ['with an unknown token', proxy('web-1', 'guessed'), 'Unauthenticated'],
    ['with the token of another', proxy('web-1', 'secret-of-api-1'), 'PermissionDenied'],
    ['on state of the world', { ...proxy('web-1'), apiType: 'GRPC' }, 'Unimplemented'],
  ];
  for (const [what, options, status] of cases) {
    const known = (await plane.streams()).opened;
    const envoy = await stoppedWith(
      t,
      Envoy.start({ xdsPort: plane.xdsPort, collections: 'wildcard', ...options }),
    );
    const ended = await until('two streams have ended', async () => {
      const { streams } = await plane.streams();
      const own = streams.filter((stream) => stream.id > known && stream.ended !== '');
      return own.length >= 2 && own;
    });
    t.strictSame(
      new Set(ended.map((stream) => stream.ended)),
      new Set([status]),
      `a proxy ${what}`,
    );
    t.not(await envoy.state(), 'LIVE');
    await envoy.stop();
  }
});

function request(stream: RawStream, fields: Readonly<Record<string, unknown>>): void {
  stream.write(encodeRequest(fields));
}

function nodeOf(id: string, minor: number) {
  const version = { major_number: 1, minor_number: minor, patch: 0 };
  return { id, user_agent_name: 'envoy', user_agent_build_version: { version } };
}

t.test('it refuses an Envoy whose version is too old (Consul)', { skip }, async (t) => {
  const { plane } = await startRig(t);
  for (const [minor, isServed] of [
    [32, false],
    [33, true],
  ] as const) {
    const stream = openRawStream(plane.xdsPort, deltaAds, proxy('web-1').headers);
    t.teardown(() => stream.stop());
    request(stream, { node: nodeOf('web-1', minor), type_url: TYPE_URLS.cluster });
    if (isServed) t.equal((await stream.received(1)).length, 1);
    else t.equal(await stream.ended(), 'INVALID_ARGUMENT');
  }
});

t.test('listeners wait for the ACK of clusters (Consul)', { skip }, async (t) => {
  const { plane } = await startRig(t);
  const stream = openRawStream(plane.xdsPort, deltaAds, proxy('web-1').headers);
  t.teardown(() => stream.stop());
  request(stream, { node: nodeOf('web-1', 40), type_url: TYPE_URLS.cluster });
  request(stream, { type_url: TYPE_URLS.listener });
  await plane.waitForStream('both types are requested', ({ requests }) => requests === 2);
  const [clusters] = await stream.received(1);
  const { type_url: type, nonce } = decodeResponse(clusters!);
  t.equal(type, TYPE_URLS.cluster);
  t.equal((await plane.streams()).streams[0]?.responses, 1, 'listeners wait');
  request(stream, { type_url: TYPE_URLS.cluster, response_nonce: nonce });
  const [, listeners] = await stream.received(2);
  t.equal(decodeResponse(listeners!)['type_url'], TYPE_URLS.listener);
});

t.test('a first request with the name "*" is not a wildcard (Consul)', { skip }, async (t) => {
  const { plane } = await startRig(t);
  const stream = openRawStream(plane.xdsPort, deltaAds, proxy('web-1').headers);
  t.teardown(() => stream.stop());
  const subscribe = { resource_names_subscribe: ['*'] };
  request(stream, { node: nodeOf('web-1', 40), type_url: TYPE_URLS.cluster, ...subscribe });
  const [clusters] = await stream.received(1);
  t.strictSame(decodeResponse(clusters!)['resources'], [], 'the first response is empty');
});
