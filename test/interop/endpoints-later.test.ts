/**
 * Goal: a control plane that restarts, and knows its clusters before their endpoints, costs an Envoy no request.
 * Method: a scripted control plane, the gateway as a process of its own, a real Envoy, and requests to each of its 62
 * clusters all along, counted from outside.
 */
import t from 'tap';
import { tellingLogs } from './peers/child.js';
import {
  deltaGlob,
  deltaWildcard,
  envoyFollows,
  nothingFails,
  nothingIsRemoved,
  sotwGlob,
  sotwWildcard,
  startColdRig,
} from './peers/cold-rig.js';
import { skipWithoutGateway } from './peers/gateway.js';
import { skipWithout } from './peers/provisioned.js';

t.setTimeout(120_000);
// Most of the time these tests only wait.
t.jobs = 2;

const skip = skipWithout('envoy') || skipWithoutGateway();

for (const variant of [deltaWildcard, sotwWildcard, deltaGlob, sotwGlob]) {
  t.test(
    `no request fails when the source restarts and has no endpoints for 5 s (${variant.title}; invariant 3)`,
    { skip },
    async (t) => {
      const rig = await startColdRig(t, { variant });
      const { plane, gateway, envoy } = rig;
      await tellingLogs([gateway, envoy], async () => {
        plane.crash();
        await plane.restart({ atFirst: { answers: 'no endpoints', forMs: 5_000 } });
        await nothingFails(t, rig, 10_000);
        await nothingIsRemoved(t, rig);
        await envoyFollows(t, rig);
      });
    },
  );
}
