/**
 * Goal: the quickstart answers `curl` through a real Envoy, as the README shows it, before and after a failover.
 * Method: a copy of examples/quickstart on free ports, with its own backend and its own bootstrap; the commands of
 * the README's tour with Envoy.
 */
import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { freePort } from '../support/free-port.js';
import { httpRequest } from '../support/http.js';
import { root, runCommand, serveExample } from '../support/program.js';
import { shows, stepsOf } from '../support/tour.js';
import { until } from '../support/until.js';
import { Child, removeScratch, scratchDirectory } from './peers/child.js';
import { Envoy } from './peers/envoy.js';
import { skipWithout } from './peers/provisioned.js';

t.setTimeout(60_000);

const EXAMPLE = `${root}examples/quickstart`;
/** As written in the files of the example. */
const WRITTEN_PORTS = ['8081', '8082', '10000', '18000', '9901'];

/** A copy of the example with other ports. */
async function copyOf(t: Test, ports: ReadonlyMap<string, string>): Promise<string> {
  const folder = await scratchDirectory('quickstart');
  t.teardown(() => removeScratch(folder));
  await cp(EXAMPLE, folder, { recursive: true });
  for (const name of await readdir(folder, { recursive: true })) {
    if (!/\.(yaml|mjs)$/.test(name)) continue;
    const file = join(folder, name);
    const text = await readFile(file, 'utf8');
    await writeFile(
      file,
      text.replace(/\b\d{4,5}\b/g, (number) => ports.get(number) ?? number),
    );
  }
  return folder;
}

t.test(
  'README: curl through Envoy shows the shop in the cloud, and after a failover the one on-prem',
  { skip: skipWithout('envoy') },
  async (t) => {
    const steps = stepsOf(await readFile(`${root}README.md`, 'utf8'), 'envoy tour');
    t.equal(steps.length, 5, 'the tour is found in the README');
    const ports = new Map<string, string>();
    for (const written of WRITTEN_PORTS) ports.set(written, String(await freePort()));
    const folder = await copyOf(t, ports);
    const gateway = await serveExample(
      join(folder, 'authority-map.yaml'),
      '--client-port',
      ports.get('18000') ?? '',
    );
    t.teardown(gateway.stop);
    for (const { command, shown } of steps) {
      const [name, first, file = ''] = command.split(' ');
      if (name === 'node') {
        const args = [join(folder, 'backend.mjs')];
        const child = new Child({ name, command: process.execPath, args, directory: folder });
        t.teardown(() => child.stop());
      } else if (name === 'envoy') {
        t.equal(file, 'examples/quickstart/envoy.yaml');
        const envoy = await Envoy.startWith(
          parse(await readFile(join(folder, 'envoy.yaml'), 'utf8')),
        );
        t.teardown(() => envoy.stop());
      } else if (name === 'curl') {
        const url = (first ?? '').replace(/\d{5}/, (number) => ports.get(number) ?? number);
        await until(`curl shows ${shown.join()}`, async () =>
          shows((await httpRequest(url)).body, shown),
        );
        t.pass(shown.join());
      } else {
        const { code } = await runCommand([
          ...command.split(' ').slice(2),
          '--admin',
          gateway.admin,
        ]);
        t.equal(code, 0, command);
      }
    }
  },
);
