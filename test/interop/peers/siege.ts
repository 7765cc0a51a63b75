import protobuf from 'protobufjs/minimal.js';
import type { Test } from 'tap';

import { DeltaClient } from '../../support/delta-client.js';
import { TYPE_URLS, xdstpName } from '../../support/mesh.js';
import { ScriptedUpstream } from '../../support/scripted-upstream.js';
import { until } from '../../support/until.js';
import { Gateway } from './gateway.js';

export const good = 'good.example.com';
export const bad = 'bad.example.com';
const ASSIGNMENT = TYPE_URLS.assignment;
/** A name of the correct source. */
export const canary = xdstpName(good, 'assignment', 'edge/canary');
/** Names of the hostile source: `kept` never changes, `innocent` sometimes changes validly. */
export const kept = xdstpName(bad, 'assignment', 'edge/kept');
export const innocent = xdstpName(bad, 'assignment', 'edge/innocent');

/** A ClusterLoadAssignment of this name; `salt` makes contents differ. */
export function assignmentBody(name: string, salt: number): Uint8Array {
  const writer = protobuf.Writer.create().uint32(0x0a).string(name);
  return writer.uint32(0x12).fork().uint32(0x28).uint32(salt).ldelim().finish();
}

/** A gateway between a correct source, a hostile one, and a witness client that subscribes both. */
export interface Siege {
  readonly gateway: Gateway;
  readonly goodSource: ScriptedUpstream;
  readonly badSource: ScriptedUpstream;
  readonly witness: DeltaClient;
}

/** The teardown of the test stops all of it. */
export async function startSiege(t: Test): Promise<Siege> {
  const goodSource = await ScriptedUpstream.start();
  t.teardown(() => goodSource.stop());
  const badSource = await ScriptedUpstream.start();
  t.teardown(() => badSource.stop());
  goodSource.put(ASSIGNMENT, canary, assignmentBody(canary, 0));
  for (const name of [kept, innocent]) badSource.put(ASSIGNMENT, name, assignmentBody(name, 0));
  const timers = { backoff_base: '50ms', backoff_max: '200ms' };
  const source = (port: number): unknown => ({
    target: `127.0.0.1:${port}`,
    insecure: true,
    timers,
  });
  const gateway = await Gateway.start({
    authorityMap: {
      sources: { good: source(goodSource.port), bad: source(badSource.port) },
      authorities: { [good]: { sources: ['good'] }, [bad]: { sources: ['bad'] } },
    },
  });
  t.teardown(() => gateway.stop());
  const witness = new DeltaClient({ port: gateway.port });
  t.teardown(() => {
    witness.close();
  });
  witness.subscribe(ASSIGNMENT, [canary, kept, innocent]);
  await until('the witness holds all', () => witness.held(ASSIGNMENT).size === 3);
  return { gateway, goodSource, badSource, witness };
}

let salt = 0;

/** A different number each time. */
export function nextSalt(): number {
  return ++salt;
}

/**
 * The witness still gets changes of the correct source and keeps its content, and the process
 * lives.
 */
export async function nobodyElseNotices(
  t: Test,
  { gateway, goodSource, witness }: Siege,
): Promise<void> {
  const before = witness.bodies().filter((name) => name === canary).length;
  const beganMs = performance.now();
  goodSource.put(ASSIGNMENT, canary, assignmentBody(canary, nextSalt()));
  await until(
    'the witness gets a change',
    () => witness.bodies().filter((name) => name === canary).length > before,
    { timeoutMs: 5_000, everyMs: 2 },
  );
  t.comment(`the witness got a change after ${Math.round(performance.now() - beganMs)} ms`);
  t.equal(witness.status, undefined, "the witness' stream lives");
  t.equal(witness.held(ASSIGNMENT).size, 3, 'and nothing was removed from it');
  t.equal(gateway.exited, undefined, 'the process lives');
  t.equal(await gateway.metric('tributary_handler_errors_total'), 0, 'no handler threw');
}

/** Runs `attack`, which must raise the counter. */
export async function counts(
  t: Test,
  { gateway }: Siege,
  metric: string,
  labels: Readonly<Record<string, string>>,
  attack: () => Promise<unknown>,
): Promise<void> {
  const before = await gateway.metric(metric, labels);
  await attack();
  await until(`${metric} counts it`, async () => (await gateway.metric(metric, labels)) > before);
  t.pass(`${metric} counts it`);
}
