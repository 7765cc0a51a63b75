/** The files of a demo: the resources and the Envoy bootstrap of examples/quickstart, with other ports. */
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const EXAMPLE = fileURLToPath(new URL('../../../examples/quickstart/', import.meta.url));

/** The control planes, in order of preference: name → authority. */
export const AUTHORITIES = { cloud: 'cloud.example.com', onprem: 'onprem.example.com' } as const;
export type PlaneName = keyof typeof AUTHORITIES;

/** Ports of the demo, on 127.0.0.1. */
export interface DemoPorts {
  /** The HTTP backends to which the resources of each control plane lead. */
  readonly backends: Readonly<Record<PlaneName, number>>;
  /** The listener of Envoy. */
  readonly listener: number;
}

/** @returns a new directory with the files; the caller removes it. */
export function writeDemoFiles(ports: DemoPorts): string {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-demo-'));
  // As written in the example → here.
  const moved = new Map([
    ['8081', ports.backends.cloud],
    ['8082', ports.backends.onprem],
    ['10000', ports.listener],
  ]);
  for (const [name, authority] of Object.entries(AUTHORITIES)) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'shop.yaml'), exampleFile(`${name}/shop.yaml`, moved));
    writeFileSync(
      join(folder, `${name}.yaml`),
      `sources: { files: { path: ./${name} } }\nauthorities: { ${authority}: { sources: [files] } }\n`,
    );
  }
  return folder;
}

/** Writes the authority map of the gateway. @returns its path */
export function writeMap(
  folder: string,
  planes: Readonly<Record<PlaneName, number>>,
  { holdMs, switchWaitMs }: { readonly holdMs: number; readonly switchWaitMs: number },
): string {
  const path = join(folder, 'authority-map.yaml');
  // A control plane that resumes says nothing about unchanged names, and a failback waits until its silence is
  // certain (15 s). `fresh` makes it send them.
  const target = (port: number): string =>
    `{ target: "127.0.0.1:${port}", insecure: true, resume: fresh }`;
  // The hold does not double: each kill is a relapse.
  const hold = `hold: ${holdMs}ms, hold_max: ${holdMs}ms, switch_wait: ${switchWaitMs}ms`;
  writeFileSync(
    path,
    `sources:
  cloud: ${target(planes.cloud)}
  onprem: ${target(planes.onprem)}
authorities:
  ${AUTHORITIES.cloud}:
    sources: [cloud]
    alternative: ${AUTHORITIES.onprem}
    failover: { use_alternative_when: unreachable, ${hold} }
  ${AUTHORITIES.onprem}: { sources: [onprem] }
`,
  );
  return path;
}

/** Writes the bootstrap of an Envoy of the gateway at this port. @returns its path */
export function writeBootstrap(folder: string, gatewayPort: number): string {
  const path = join(folder, 'envoy.yaml');
  const moved = new Map([
    ['18000', gatewayPort],
    ['9901', 0],
  ]);
  writeFileSync(path, exampleFile('envoy.yaml', moved));
  return path;
}

const exampleFile = (name: string, moved: ReadonlyMap<string, number>): string =>
  readFileSync(join(EXAMPLE, name), 'utf8').replace(/(?<=port_value: )\d+/g, (port) =>
    String(moved.get(port) ?? port),
  );
