/**
 * Goal: a gateway process that starts with an empty memory removes nothing from a running Envoy,
 * however its source answers: in several responses, cut between two of them, or with nothing for a
 * while.
 * Method: a scripted control plane, the gateway as a process of its own that is killed and
 * restarted, a real Envoy, and requests to each of its 62 clusters all along, counted from outside.
 */
import t, { type Test } from 'tap';

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
  type ColdRig,
  type ColdRigOptions,
} from './peers/cold-rig.js';
import { skipWithoutGateway } from './peers/gateway.js';
import { skipWithout } from './peers/provisioned.js';
import type { Script } from './peers/scripted-control-plane.js';

t.setTimeout(300_000);
// Most of the time these tests only wait.
t.jobs = 5;

const skip = skipWithout('envoy') || skipWithoutGateway();

/** Kills the gateway, runs `whileDown`, and watches the traffic after the restart. */
async function coldStart(
  t: Test,
  options: ColdRigOptions,
  forMs: number,
  whileDown: (rig: ColdRig) => Promise<void> | void,
): Promise<void> {
  const rig = await startColdRig(t, options);
  const { gateway, envoy } = rig;
  await tellingLogs([gateway, envoy], async () => {
    await gateway.kill();
    await whileDown(rig);
    await gateway.restart();
    await nothingFails(t, rig, forMs);
    await nothingIsRemoved(t, rig);
    t.equal(rig.plane.cutsLeft, 0, 'the control plane cut its stream where the script says');
    await envoyFollows(t, rig);
  });
}

interface InPieces extends ColdRigOptions {
  readonly script: Script;
  readonly forMs: number;
  readonly title: string;
}

const fourPieces: Script = { pieces: 4, gapMs: 300 };
const windowMs = 8_000;

const inPieces: readonly InPieces[] = [
  // This one takes longest, so it starts first.
  {
    title: 'in four messages 2 s apart',
    variant: deltaWildcard,
    script: { pieces: 4, gapMs: 2_000 },
    forMs: 11_000,
  },
  ...[deltaWildcard, deltaGlob].map((variant) => ({
    title: 'in four messages, and its stream is cut after the second one',
    variant,
    hasStateFile: true,
    script: { ...fourPieces, cutAfterPieces: 2 },
    forMs: windowMs,
  })),
  ...[
    ...[deltaGlob, deltaWildcard, sotwGlob, sotwWildcard].map((variant) => ({
      variant,
      hasStateFile: true,
    })),
    // An Envoy with a delta glob states no versions: without a file, no process knows what it
    // holds.
    ...[deltaWildcard, sotwGlob, sotwWildcard].map((variant) => ({ variant })),
  ].map((options) => ({
    ...options,
    title: 'in four messages 0.3 s apart',
    script: fourPieces,
    forMs: windowMs,
  })),
];

for (const { title, script, forMs, ...options } of inPieces) {
  const state = options.hasStateFile === true ? 'with a state file' : 'without a state file';
  t.test(
    `no request fails when a gateway starts cold and its source answers ${title} ` +
      `(${options.variant.title}; ${state}; invariants 3, 17)`,
    { skip, timeout: 120_000 },
    (t) =>
      coldStart(t, options, forMs, ({ plane }) => {
        plane.play(script);
      }),
  );
}

const emptyForMs = 5_000;
const emptyAtFirst: readonly ColdRigOptions[] = [
  { variant: deltaWildcard },
  { variant: sotwWildcard },
  { variant: deltaGlob, hasStateFile: true },
];

for (const options of emptyAtFirst) {
  t.test(
    'no request fails when the gateway and its source restart together and the source has nothing ' +
      `for 5 s (${options.variant.title}; invariants 3, 17)`,
    { skip, timeout: 120_000 },
    (t) =>
      coldStart(t, options, 12_000, async ({ plane }) => {
        plane.crash();
        await plane.restart({ atFirst: { answers: 'empty', forMs: emptyForMs } });
      }),
  );
}
