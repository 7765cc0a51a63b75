import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Child, GENERATOR_CORE, SERVER_CORE } from '../harness/child.js';
import { built, peerBinary } from '../harness/paths.js';
import { AUTHORITY, GLOB, type Server, type ServerOptions } from '../harness/server.js';

const ALTERNATIVE_AUTHORITY = 'benchalt';

/**
 * Starts the gateway as operators do, plaintext on loopback, with a real delta control plane
 * behind it. Changes are made at that control plane, so that what is measured is the whole way.
 */
export async function startTributary(options: ServerOptions): Promise<Server> {
  const primary = await startSource(AUTHORITY, 'A', options.resources);
  const alternative =
    options.withAlternative === true
      ? await startSource(ALTERNATIVE_AUTHORITY, 'B', options.resources)
      : undefined;
  const folder = await mkdtemp(join(tmpdir(), 'tributary-bench-'));
  const mapFile = join(folder, 'authority-map.json');
  await writeFile(mapFile, JSON.stringify(authorityMap(primary.target, alternative?.target)));
  const [listen, admin] = [await freeAddress(), await freeAddress()];
  const flags = ['--authority-map', mapFile, '--listen', listen, '--admin', admin];
  const gateway = new Child('node', [built('gateway/main.js'), 'serve', ...flags], SERVER_CORE);
  const stop = async (): Promise<void> => {
    await gateway.stop();
    await primary.child.stop();
    await alternative?.child.stop();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await gateway.lineWithEvent('gateway_ready');
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    pid: gateway.pid,
    target: listen,
    control: primary.control,
    wildcard: GLOB,
    upstream: { target: primary.target, pid: primary.child.pid },
    obituary: () => gateway.obituary,
    stop,
  };
}

function authorityMap(primary: string, alternative: string | undefined): unknown {
  if (alternative === undefined) {
    return {
      sources: { up: { target: primary, insecure: true } },
      authorities: { [AUTHORITY]: { sources: ['up'] } },
    };
  }
  return {
    sources: {
      up: { target: primary, insecure: true },
      alt: { target: alternative, insecure: true },
    },
    authorities: {
      [AUTHORITY]: { sources: ['up'], alternative: ALTERNATIVE_AUTHORITY },
      [ALTERNATIVE_AUTHORITY]: { sources: ['alt'] },
    },
  };
}

interface Source {
  readonly child: Child;
  readonly target: string;
  readonly control: string;
}

async function startSource(authority: string, origin: string, resources: number): Promise<Source> {
  const flags = ['--authority', authority, '--origin', origin, '--resources', String(resources)];
  const child = new Child(peerBinary('source'), flags, GENERATOR_CORE);
  const line = await child.lineWithEvent('ready');
  return { child, target: String(line['listen']), control: String(line['control']) };
}

/** A port that was free a moment ago: the gateway takes addresses, and prints which only if asked. */
async function freeAddress(): Promise<string> {
  const probe = createServer();
  await new Promise<void>((done) => probe.listen(0, '127.0.0.1', done));
  const { port } = probe.address() as AddressInfo;
  await new Promise((done) => probe.close(done));
  return `127.0.0.1:${port}`;
}
