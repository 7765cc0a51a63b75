/**
 * Goal: java-control-plane serves real Envoys in each gRPC variant of the protocol, and does so only
 * for requests that contain the Node. This is the baseline for the same variants through the gateway.
 * Method: the unmodified library from Maven Central, Envoys connected directly, traffic.
 */
import t from 'tap';

import { TYPE_URLS, type MeshResource } from '../../support/mesh.js';
import { stoppedWith } from '../../support/stopped-with.js';
import { ControlPlane } from '../peers/control-plane.js';
import { Envoy, overSource, sourceWithoutAds } from '../peers/envoy.js';
import { startHttpBackend } from '../peers/http-backend.js';
import {
  changesArrive,
  isApart,
  nothingLost,
  plainMesh,
  startClient,
  type PlainMesh,
} from '../peers/plain-mesh.js';
import { skipWithout } from '../peers/provisioned.js';
import { grpcVariants } from '../peers/variants.js';

t.setTimeout(120_000);

const skip = skipWithout('envoy', 'java-control-plane');
const program = 'java-control-plane';
const setNodeOnFirstMessageOnly = false;

t.test('java-control-plane', { skip }, async (t) => {
  const plane = await stoppedWith(t, ControlPlane.start({ program }));
  const backend = await stoppedWith(t, startHttpBackend('cloud'));

  for (const [at, { title, envoy: variant, method }] of grpcVariants.entries()) {
    await t.test(
      `${title}: additions, changes and deletions in a snapshot reach the Envoy of its node id and no other ` +
        '(xDS protocol)',
      async (t) => {
        const [one, two] = [
          await plainMesh('mesh-one', backend.port),
          await plainMesh('mesh-two', backend.port),
        ];
        const ids = [`envoy-${at}-1`, `envoy-${at}-2`] as const;
        const options = { ...variant, setNodeOnFirstMessageOnly };
        const source = sourceWithoutAds(options);
        const publish = (node: string) => (resources: readonly MeshResource[]) =>
          plane.setSnapshot(
            node,
            variant.over === 'per-type' ? overSource(resources, source) : resources,
          );
        await publish(ids[0])(one.resources);
        await publish(ids[1])(two.resources);
        const client = (mesh: PlainMesh, nodeId: string) =>
          startClient(t, mesh, { ...options, xdsPort: plane.xdsPort, nodeId });
        const [first, second] = [await client(one, ids[0]), await client(two, ids[1])];
        await Promise.all([first, second].map(({ traffic }) => traffic.untilOnly('cloud')));
        await isApart(t, first, one, two);
        await isApart(t, second, two, one);
        await changesArrive(t, first, one, publish(ids[0]));
        const { streams } = await plane.streams();
        const own = streams.filter(({ nodeId }) => nodeId.startsWith(`envoy-${at}-`));
        t.ok(own.length > 0 && own.every((stream) => method.test(stream.method)), 'the variant');
        await nothingLost(t, first);
        await nothingLost(t, second);
      },
    );
  }

  await t.test(
    'it gives no response to a request without a Node, which the protocol allows after the first one',
    async (t) => {
      const mesh = await plainMesh('mesh', backend.port);
      await plane.setSnapshot('envoy-brief', mesh.resources);
      await stoppedWith(
        t,
        Envoy.start({
          xdsPort: plane.xdsPort,
          nodeId: 'envoy-brief',
          collections: 'wildcard',
          setNodeOnFirstMessageOnly: true,
        }),
      );
      const stream = await plane.waitForStream(
        'Envoy has subscribed assignments',
        ({ nodeId, types }) => nodeId === 'envoy-brief' && TYPE_URLS.assignment in types,
      );
      const count = mesh.resources.filter(({ typeUrl }) => typeUrl === TYPE_URLS.cluster).length;
      t.equal(
        stream.types[TYPE_URLS.cluster]?.sentResources,
        count,
        'the first request had a Node',
      );

      // The server has had time to respond when another Envoy has all.
      const other = await plainMesh('other', backend.port);
      await plane.setSnapshot('envoy-brief', other.resources);
      await plane.setSnapshot('envoy-full', other.resources);
      const { xdsPort } = plane;
      await startClient(t, other, { xdsPort, nodeId: 'envoy-full', setNodeOnFirstMessageOnly });
      const { streams } = await plane.streams();
      const { types } = streams.find(({ id }) => id === stream.id)!;
      t.equal(types[TYPE_URLS.assignment]?.responses, 0, 'no response for assignments');
      t.equal(types[TYPE_URLS.cluster]?.responses, 1, 'no second response for clusters');
    },
  );

  await t.test('it ends its streams when a test says so, and Envoy returns', async (t) => {
    const mesh = await plainMesh('mesh', backend.port);
    await plane.setSnapshot('envoy-again', mesh.resources);
    const options = { xdsPort: plane.xdsPort, nodeId: 'envoy-again', setNodeOnFirstMessageOnly };
    const client = await startClient(t, mesh, options);
    const isOwn = ({ nodeId }: { readonly nodeId: string }): boolean => nodeId === 'envoy-again';
    const first = await plane.waitForStream('a stream is open', isOwn);
    await plane.behave('normal', { endStreams: true });
    const next = await plane.waitForStream(
      'a new stream is open',
      (stream) => isOwn(stream) && stream.id > first.id,
    );
    t.equal(next.nodeId, 'envoy-again');
    const before = (await plane.streams()).streams.find(({ id }) => id === first.id);
    t.equal(before?.ended, 'UNAVAILABLE');
    await client.traffic.untilOnly('cloud');
    await plane.kill();
    await plane.restart();
    await plane.setSnapshot('envoy-again', mesh.resources);
    await plane.waitForStream('Envoy is back at the restarted process', isOwn);
    await nothingLost(t, client);
  });
});
