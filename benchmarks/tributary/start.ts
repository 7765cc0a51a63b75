import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Child, GENERATOR_CORE, SERVER_CORE } from '../harness/child.js';
import { built, peerBinary } from '../harness/paths.js';
import { AUTHORITY, GLOB, WILDCARD, type Server, type ServerOptions } from '../harness/server.js';

/** W2m opens 50 streams per connection, and W1d requests 100,000 names from one address: no real client does. */
const LIMITS = ['--max-streams-per-connection', '100', '--max-upstream-names', '200000'];

const ALTERNATIVE_AUTHORITY = 'benchalt';

/**
 * Starts the gateway as operators do, plaintext on loopback, with a real delta control plane.
 * Changes are made at the control plane, so the complete path is measured.
 */
export async function startTributary(options: ServerOptions): Promise<Server> {
  const isOldStyle = options.oldStyle === true;
  const extra = isOldStyle ? ['--old-style'] : [];
  const primary = await startSource(AUTHORITY, 'A', options.resources, extra);
  const alternative =
    options.withAlternative === true
      ? await startSource(ALTERNATIVE_AUTHORITY, 'B', options.resources)
      : undefined;
  const folder = await mkdtemp(join(tmpdir(), 'tributary-bench-'));
  const mapFile = join(folder, 'authority-map.json');
  const map = isOldStyle
    ? oldStyleMap(primary.target)
    : authorityMap(primary.target, alternative?.target);
  await writeFile(mapFile, JSON.stringify(map));
  const flags = ['--authority-map', mapFile, '--client-port', '0', '--admin-port', '0', ...LIMITS];
  const gateway = new Child('node', [built('gateway/main.js'), 'serve', ...flags], SERVER_CORE);
  const stop = async (): Promise<void> => {
    await gateway.stop();
    await primary.child.stop();
    await alternative?.child.stop();
    await rm(folder, { recursive: true, force: true });
  };
  let ready: Record<string, unknown>;
  try {
    ready = await gateway.lineWithEvent('gateway_ready');
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    pid: gateway.pid,
    target: String(ready['listen']),
    control: primary.control,
    wildcard: isOldStyle ? WILDCARD : GLOB,
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

/** All clients are in one node group, so that its source has one stream, as with xdstp names. */
function oldStyleMap(target: string): unknown {
  return {
    sources: { up: { target, insecure: true } },
    old_style_names: { differ_by: [], served_by: [{ sources: ['up'] }] },
  };
}

interface Source {
  readonly child: Child;
  readonly target: string;
  readonly control: string;
}

async function startSource(
  authority: string,
  origin: string,
  resources: number,
  extra: readonly string[] = [],
): Promise<Source> {
  const catalogue = ['--authority', authority, '--origin', origin];
  const flags = [...catalogue, '--resources', String(resources), ...extra];
  const child = new Child(peerBinary('source'), flags, GENERATOR_CORE);
  const line = await child.lineWithEvent('ready');
  return { child, target: String(line['listen']), control: String(line['control']) };
}
