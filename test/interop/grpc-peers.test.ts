/**
 * Goal: the real gRPC clients behave as the other tests assume.
 * Method: each connects directly to one go-control-plane, over the state-of-the-world protocol.
 */
import t from 'tap';

import { assignment, grpcService } from '../support/mesh.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';
import { ControlPlane } from './peers/control-plane.js';
import { startGrpcBackend } from './peers/grpc-backend.js';
import {
  grpcBootstrap,
  GrpcClient,
  grpcLanguages,
  skipWithoutGrpcClient,
} from './peers/grpc-client.js';
import { skipWithout } from './peers/provisioned.js';

const authority = 'cloud.example.com';
const target = `xds://${authority}/shop`;

t.setTimeout(60_000);

for (const language of grpcLanguages) {
  t.test(
    `${language}: a client follows its control plane, and reports which backend answers`,
    { skip: skipWithout('control-plane') || skipWithoutGrpcClient(language) },
    async (t) => {
      const first = await stoppedWith(t, startGrpcBackend('first'));
      const second = await stoppedWith(t, startGrpcBackend('second'));
      const plane = await stoppedWith(t, ControlPlane.start());
      await plane.setResources(grpcService(authority, 'shop', first.port));
      const bootstrap = grpcBootstrap(plane.xdsPort, [authority]);
      const client = await stoppedWith(
        t,
        GrpcClient.start({ language, targets: [target], bootstrap }),
      );
      await client.settles(target, 'first');
      await plane.patchResources([assignment(authority, 'shop', second.port)]);
      await client.settles(target, 'second');
      t.strictSame(client.failures, []);
      const stream = await plane.waitForStream('it asks', ({ nodeId }) => nodeId === 'grpc-client');
      t.match(stream.method, /\/StreamAggregatedResources$/);
      t.strictSame(stream.nacks, []);

      await second.stop();
      const failure = await until('a failure is reported', () => client.failures[0]);
      // A call in flight when its server stopped is reported as cancelled.
      t.match(failure, { target, error: /^(unavailable|cancelled): ./i });
      const { failed, answers } = (await client.totals())[target]!;
      t.equal(failed, client.failures.length);
      t.match(Object.keys(answers), ['first', 'second']);
    },
  );
}
