/**
 * The cost of node groups: N clients with N different node ids come at once, on a few shared connections,
 * each with the wildcard of old-style names. The source is source.ts.
 * A second run with all clients in one group gives the cost of the clients' own streams.
 *
 *   node build/benchmarks/groups/run-groups.js [--groups 500,1000,5000] [--cpu-prof FOLDER]
 *
 * docs/PERFORMANCE.md, "Node groups", explains the figures. It needs Linux.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect, type ClientHttp2Session } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import {
  encodeDeltaAck,
  encodeDeltaRequest,
  decodeDeltaResponse,
} from '../../protos/delta-codec.js';
import { encodeNode } from '../../protos/node-codec.js';
import { framed, MessageReader } from '../floor/grpc-messages.js';
import { Child, GENERATOR_CORE, SERVER_CORE } from '../harness/child.js';
import { built } from '../harness/paths.js';
import type { TurnReport } from './turn-meter.js';

const TYPE_URL = 'type.googleapis.com/envoy.config.cluster.v3.Cluster';
const PATH = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources';
const CLIENT_CONNECTIONS = 10;
const WITHIN_MS = 60_000;

const { values: flags } = parseArgs({
  options: {
    groups: { type: 'string', default: '500,1000,5000' },
    'cpu-prof': { type: 'string' },
  },
});

/** `each`: a group for each client. `one`: one group for all. */
type Grouping = 'each' | 'one';

interface Figures {
  readonly servedMs: number;
  readonly longestTurnMs: number;
  readonly longTurns: number;
  readonly rssKiB: number;
  readonly liveKiB: number;
  /** Connections from the gateway to the source. */
  readonly sourceConnections: number;
}

async function measure(clients: number, grouping: Grouping): Promise<Figures> {
  const source = new Child('node', [built('benchmarks/groups/source.js')], GENERATOR_CORE);
  const folder = await mkdtemp(join(tmpdir(), 'tributary-groups-'));
  let gateway: Child | undefined;
  const sessions: ClientHttp2Session[] = [];
  try {
    const target = String((await source.lineWithEvent('ready'))['listen']);
    const map = join(folder, 'authority-map.json');
    await writeFile(map, JSON.stringify(mapOf(target, grouping)));
    gateway = new Child('node', gatewayArgs(map, clients), SERVER_CORE);
    const listen = String((await gateway.lineWithEvent('gateway_ready'))['listen']);
    for (let i = 0; i < CLIENT_CONNECTIONS; i += 1) sessions.push(await connected(listen));
    const before = await reportOf(gateway);
    const startMs = performance.now();
    await served(sessions, clients);
    const servedMs = performance.now() - startMs;
    await pause(1_000);
    const after = await reportOf(gateway);
    return {
      servedMs,
      longestTurnMs: after.longestMs,
      longTurns: after.longTurns,
      rssKiB: (after.rssBytes - before.rssBytes) / 1_024 / clients,
      liveKiB: (after.liveBytes - before.liveBytes) / 1_024 / clients,
      sourceConnections: await connectionsOf(source),
    };
  } finally {
    for (const session of sessions) session.destroy();
    if (gateway) await ended(gateway);
    await source.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

const mapOf = (target: string, grouping: Grouping): unknown => ({
  sources: { up: { target, insecure: true } },
  old_style_names: {
    differ_by: grouping === 'each' ? ['id'] : [],
    served_by: [{ sources: ['up'] }],
  },
});

function gatewayArgs(map: string, clients: number): readonly string[] {
  const folder = flags['cpu-prof'];
  const profile = folder === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', folder];
  const meter = ['--import', built('benchmarks/groups/turn-meter.js')];
  const limits = [
    // All clients are one peer, which gets a part of all.
    ...['--max-node-groups', String(2 * clients)],
    ...['--max-streams-per-connection', String(Math.ceil(clients / CLIENT_CONNECTIONS))],
  ];
  const ports = ['--client-port', '0', '--admin-port', '0'];
  const program = [built('gateway/main.js'), 'serve', '--authority-map', map];
  return [...profile, ...meter, ...program, ...ports, ...limits];
}

async function connected(listen: string): Promise<ClientHttp2Session> {
  const session = connect(`http://${listen}`);
  // A gateway that exits breaks it.
  session.on('error', () => undefined);
  await new Promise<void>((resolve, reject) => {
    session.once('error', reject);
    session.once('remoteSettings', () => {
      resolve();
    });
  });
  return session;
}

async function connectionsOf(source: Child): Promise<number> {
  source.writeLine('connections');
  return Number((await source.lineWithEvent('connections'))['connections']);
}

async function reportOf(gateway: Child): Promise<TurnReport> {
  gateway.writeLine('report');
  return (await gateway.lineWithEvent('turns')) as unknown as TurnReport;
}

/** A profile is written only by a process that exits by itself. */
async function ended(gateway: Child): Promise<void> {
  if (flags['cpu-prof'] !== undefined) {
    gateway.writeLine('exit');
    await gateway.lineWithEvent('exited').catch(() => undefined);
  }
  await gateway.stop();
}

/** Opens all streams at once; resolves when each has had its resources. */
function served(sessions: readonly ClientHttp2Session[], clients: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let missing = clients;
    const late = setTimeout(() => {
      reject(new Error(`${missing} of ${clients} clients were not served`));
    }, WITHIN_MS);
    for (let i = 0; i < clients; i += 1) {
      openClient(sessions[i % sessions.length]!, i, reject, () => {
        missing -= 1;
        if (missing > 0) return;
        clearTimeout(late);
        resolve();
      });
    }
  });
}

function openClient(
  session: ClientHttp2Session,
  index: number,
  onFailed: (error: Error) => void,
  onServed: () => void,
): void {
  const stream = session.request({
    ':method': 'POST',
    ':path': PATH,
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  stream.on('error', onFailed);
  stream.on('response', (headers) => {
    const status = headers['grpc-status'];
    if (status !== undefined) onFailed(new Error(`status ${String(status)}`));
  });
  const reader = new MessageReader();
  let isServed = false;
  stream.on('data', (chunk: Buffer) => {
    for (const message of reader.push(chunk)) {
      const decoded = decodeDeltaResponse(message, 1_000);
      if (!decoded.ok) throw new Error(decoded.reason);
      const { nonce, resources } = decoded.message;
      stream.write(framed([encodeDeltaAck(TYPE_URL, nonce)]));
      if (isServed || resources.length === 0) continue;
      isServed = true;
      onServed();
    }
  });
  const node = encodeNode({
    id: `group-${index}`,
    cluster: 'bench',
    userAgentName: 'bench',
    userAgentVersion: '1',
  });
  const request = encodeDeltaRequest({
    node,
    typeUrl: TYPE_URL,
    subscribe: ['*'],
    unsubscribe: [],
    initialVersions: new Map(),
    responseNonce: '',
    errorDetail: undefined,
  });
  stream.write(framed([Buffer.from(request)]));
}

const rows: string[] = [];
for (const groups of flags.groups.split(',').map(Number)) {
  const own = await measure(groups, 'one');
  const each = await measure(groups, 'each');
  rows.push(
    `| ${[
      groups,
      `${(each.servedMs / 1_000).toFixed(1)} s`,
      `${(each.rssKiB - own.rssKiB).toFixed(0)} KiB`,
      `${(each.liveKiB - own.liveKiB).toFixed(0)} KiB`,
      `${own.rssKiB.toFixed(0)} KiB`,
      `${each.longestTurnMs.toFixed(0)} ms (${each.longTurns} over 50)`,
      `${own.longestTurnMs.toFixed(0)} ms`,
      each.sourceConnections,
    ].join(' | ')} |`,
  );
  process.stdout.write(`${rows.at(-1)}\n`);
}
process.stdout.write(`
| groups | all served | resident per group | live per group | client's own stream | longest turn | with one group | connections to the source |
| --- | --- | --- | --- | --- | --- | --- | --- |
${rows.join('\n')}
`);
