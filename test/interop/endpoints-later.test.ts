/**
 * Goal: a control plane that restarts, and knows its clusters before their endpoints, costs an Envoy no request; also if the
 * gateway restarts with it, and has content on disk.
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
  type Variant,
} from './peers/cold-rig.js';
import { skipWithoutGateway } from './peers/gateway.js';
import { skipWithout } from './peers/provisioned.js';

t.setTimeout(120_000);
// Most of the time these tests only wait.
t.jobs = 4;

const skip = skipWithout('envoy') || skipWithoutGateway();

/** @param isCold the gateway restarts, too, and has the content of its former process on disk */
function loseEndpoints(variant: Variant, isCold: boolean): void {
  const restarts = isCold
    ? 'the gateway and its source restart together and the source'
    : 'the source restarts and';
  t.test(
    `no request fails when ${restarts} has no endpoints for 5 s (${variant.title}; invariant 3)`,
    { skip },
    async (t) => {
      const rig = await startColdRig(t, { variant, keepsContent: isCold });
      const { plane, gateway, envoy } = rig;
      await tellingLogs([gateway, envoy], async () => {
        plane.crash();
        if (isCold) await gateway.kill();
        await plane.restart({ atFirst: { answers: 'no endpoints', forMs: 5_000 } });
        if (isCold) await gateway.restart();
        await nothingFails(t, rig, 10_000);
        await nothingIsRemoved(t, rig);
        await envoyFollows(t, rig);
      });
    },
  );
}

for (const variant of [deltaWildcard, sotwWildcard, deltaGlob, sotwGlob]) {
  for (const isCold of [false, true]) loseEndpoints(variant, isCold);
}
