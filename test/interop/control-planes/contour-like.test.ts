/**
 * Goal: the look-alike of Contour serves real Envoys over each variant, and gives all of them the same content. This
 * is the baseline for such a control plane behind the gateway.
 * Method: the look-alike in control-plane/like_contour.go, Envoys connected directly, traffic.
 */
import t from 'tap';

import { opensslMissing } from '../../support/certificates.js';
import type { MeshResource } from '../../support/mesh.js';
import { stoppedWith } from '../../support/stopped-with.js';
import { ControlPlane } from '../peers/control-plane.js';
import { overSource, sourceWithoutAds } from '../peers/envoy.js';
import { startHttpBackend } from '../peers/http-backend.js';
import { changesArrive, nothingLost, plainMesh, startClient } from '../peers/plain-mesh.js';
import { skipWithout } from '../peers/provisioned.js';
import { createSecurity } from '../peers/security.js';
import { grpcVariants } from '../peers/variants.js';

t.setTimeout(120_000);

const skip = skipWithout('envoy', 'control-plane');
const noOpenssl = await opensslMissing();
const cases = [
  ...grpcVariants.map((variant) => [variant, false] as const),
  [grpcVariants.at(-1)!, true] as const,
];

for (const [variant, tls] of cases) {
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
