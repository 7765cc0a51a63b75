/**
 * What clients cost that subscribe to a large collection and never read a byte of it. All of them are
 * due the same bytes, so these exist once.
 */
import { encodeDeltaRequest } from '../../protos/delta-codec.js';
import { memoryMiB } from '../../benchmarks/harness/process-meter.js';
import { Gateway } from '../interop/peers/gateway.js';
import { DeltaClient } from '../support/delta-client.js';
import { request } from '../support/model-client.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { openUnreadStream } from '../support/unread-stream.js';
import { until } from '../support/until.js';
import { bodyOf, CDS, xdstpName } from './content.js';
import { askHeld, LITTLE_GARBAGE, PROBE } from './gateway-meter.js';

export interface UnreadClientsFigures {
  /** One client has the collection. */
  readonly before: Held;
  /** The others have asked for it too. */
  readonly after: Held;
}

/** Resident memory of the gateway's process, and what is alive in it. */
interface Held {
  readonly residentMiB: number;
  readonly aliveMiB: number;
}

const RESOURCES = 1_000;
const BODY_BYTES = 4_096;
const AUTHORITY = 'cloud.test';
const LARGE = xdstpName(CDS, AUTHORITY, 'large/*');

export async function leaveUnread(clients: number): Promise<UnreadClientsFigures> {
  const upstream = await ScriptedUpstream.start();
  for (let index = 0; index < RESOURCES; index++) {
    const name = xdstpName(CDS, AUTHORITY, `large/${index}`);
    upstream.put(CDS, name, bodyOf(name, '1', BODY_BYTES));
  }
  const gateway = await Gateway.start({
    authorityMap: {
      sources: { up: { target: `127.0.0.1:${upstream.port}`, insecure: true } },
      authorities: { [AUTHORITY]: { sources: ['up'] } },
    },
    preload: PROBE,
    nodeArgs: LITTLE_GARBAGE,
    args: ['--client-keepalive-time', '10m'],
  });
  const reader = new DeltaClient({ port: gateway.port });
  const sessions: { destroy(): void }[] = [];
  try {
    reader.subscribe(CDS, [LARGE]);
    await until('a client has the collection', () => reader.content(CDS).size === RESOURCES);
    const before = await heldBy(gateway);
    const ask = encodeDeltaRequest(request({ typeUrl: CDS, subscribe: [LARGE] }));
    for (let index = 0; index < clients; index++) {
      sessions.push(openUnreadStream(gateway.port, ask));
      const isMany = index % 100 === 99 || index === clients - 1;
      if (isMany) await connectedTo(gateway, index + 2);
    }
    await until(
      'the gateway waits for all of them',
      async () => (await gateway.metric('tributary_clients_paused')) >= clients,
      { timeoutMs: 60_000, everyMs: 100 },
    );
    return { before, after: await heldBy(gateway) };
  } finally {
    reader.close();
    for (const session of sessions) session.destroy();
    await gateway.stop();
    await upstream.stop();
  }
}

async function connectedTo(gateway: Gateway, streams: number): Promise<void> {
  await until(
    `${streams} streams are open`,
    async () => (await gateway.metric('tributary_clients')) >= streams,
    { timeoutMs: 60_000, everyMs: 20 },
  );
}

async function heldBy(gateway: Gateway): Promise<Held> {
  const { heapUsedBytes, externalBytes } = await askHeld(gateway);
  const residentMiB = memoryMiB(gateway.pid!).now;
  return { residentMiB, aliveMiB: (heapUsedBytes + externalBytes) / 1_048_576 };
}
