/**
 * Goal: the look-alike of Contour serves real Envoys as Contour's own server does. This is the baseline
 * for such a control plane behind the gateway.
 * Method: the look-alike in control-plane/like_contour.go, an Envoy connected directly, traffic; a
 * stream of its own for requests that no Envoy sends.
 */
import t from 'tap';

import { opensslMissing } from '../../support/certificates.js';
import { decodeSotwResponse, encodeSotwRequest } from '../../support/discovery-messages.js';
import { TYPE_URLS, type MeshResource } from '../../support/mesh.js';
import { stoppedWith } from '../../support/stopped-with.js';
import { until } from '../../support/until.js';
import { ControlPlane } from '../peers/control-plane.js';
import { Envoy, overSource, sourceWithoutAds } from '../peers/envoy.js';
import { startHttpBackend } from '../peers/http-backend.js';
import { changesArrive, nothingLost, plainMesh, startClient } from '../peers/plain-mesh.js';
import { skipWithout } from '../peers/provisioned.js';
import { openRawStream } from '../peers/raw-stream.js';
import { createSecurity } from '../peers/security.js';
import { grpcVariants } from '../peers/variants.js';

t.setTimeout(120_000);

const skip = skipWithout('envoy', 'control-plane');
const noOpenssl = await opensslMissing();
const [delta, ads, deltaPerType, perType] = grpcVariants;

for (const [variant, tls] of [
  [perType!, false],
  [perType!, true],
  [ads!, false],
] as const) {
  const { title, method, envoy: options } = variant;
  t.test(
    `${title}${tls ? ' over mutual TLS' : ''}: additions, changes and deletions arrive (Contour)`,
    { skip: skip || (tls && noOpenssl) },
    async (t) => {
      const security = tls ? await createSecurity(t) : undefined;
      const plane = await stoppedWith(
        t,
        ControlPlane.start({ like: 'contour', ...(security && { tls: security.server }) }),
      );
      const backend = await stoppedWith(t, startHttpBackend('cloud'));
      const mesh = await plainMesh('edge', backend.port);
      const source = sourceWithoutAds(options);
      const publish = (resources: readonly MeshResource[]): Promise<void> =>
        plane.setResources(options.over === 'per-type' ? overSource(resources, source) : resources);
      await publish(mesh.resources);
      const client = await startClient(t, mesh, {
        xdsPort: plane.xdsPort,
        ...options,
        ...(security && { tls: security.client }),
      });
      await client.traffic.untilOnly('cloud');
      await changesArrive(t, client, mesh, publish);
      const { streams } = await plane.streams();
      t.ok(
        streams.every((stream) => method.test(stream.method)),
        'all streams are of the variant',
      );
      if (tls) t.strictSame(streams[0]?.clientSans, ['spiffe://example.com/client']);
      await nothingLost(t, client);
    },
  );
}

t.test('delta is UNIMPLEMENTED, on ADS and on the streams of types', { skip }, async (t) => {
  const plane = await stoppedWith(t, ControlPlane.start({ like: 'contour' }));
  for (const { envoy: options, title } of [delta!, deltaPerType!]) {
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
    t.ok(
      ended.every((stream) => stream.ended === 'Unimplemented'),
      title,
    );
    await envoy.stop();
  }
});

t.test(
  'it reads the next request of a stream only when it has a response to send, and names that do not ' +
    'exist are sent empty (Contour)',
  { skip },
  async (t) => {
    const plane = await stoppedWith(t, ControlPlane.start({ like: 'contour' }));
    const { resources } = await plainMesh('edge', 1);
    await plane.setResources(resources);
    const method = '/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints';
    const stream = openRawStream(plane.xdsPort, method);
    t.teardown(() => stream.stop());
    const request = (names: readonly string[], more = {}): void => {
      const fields = { type_url: TYPE_URLS.assignment, resource_names: names, ...more };
      stream.write(encodeSotwRequest(fields));
    };
    request(['edge/web', 'edge/none']);
    const first = decodeSotwResponse((await stream.received(1))[0]!);
    t.equal(first.resources.length, 2, 'one is empty');
    request(['edge/web', 'edge/none', 'edge/filler-0000'], {
      response_nonce: first.nonce,
      version_info: first.versionInfo,
    });
    // A response to another stream shows that the server has had the time.
    const other = openRawStream(plane.xdsPort, method);
    t.teardown(() => other.stop());
    const fields = { type_url: TYPE_URLS.assignment, resource_names: ['edge/web'] };
    other.write(encodeSotwRequest(fields));
    await other.received(1);
    t.equal(stream.responses.length, 1, 'the new name has no response');
    await plane.setResources(resources);
    const second = decodeSotwResponse((await stream.received(2))[1]!);
    t.equal(second.resources.length, 3, 'any change brings it');
  },
);
