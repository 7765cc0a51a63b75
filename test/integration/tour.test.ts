/**
 * Goal: the README's five-minute tour is true.
 * Method: its commands, taken from the README itself, against the quickstart example served by the
 * built program, on free ports instead of the default ones.
 */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { root, runCommand, serveExample } from '../support/program.js';

const readme = readFileSync(`${root}README.md`, 'utf8');
const tour = /<!-- tour -->\s*```console\n([^`]*)```/.exec(readme)?.[1] ?? '';
const commands = tour.trim().split('\n');

t.test('every command of the tour succeeds, and the second `get` shows the switch', async (t) => {
  t.equal(commands.length, 6, 'the tour is found in the README');
  const { admin, stop } = await serveExample('examples/quickstart/authority-map.yaml');
  t.teardown(stop);
  const shown: string[] = [];
  for (const command of commands) {
    const words = command.split(' ');
    t.same(words.slice(0, 2), ['npx', 'tributary']);
    const asks = words[2] !== 'validate';
    const { code, stdout, stderr } = await runCommand([
      ...words.slice(2),
      ...(asks ? ['--admin', admin] : []),
    ]);
    t.equal(code, 0, `${command}\n${stdout}${stderr}`);
    if (words[2] === 'get') shown.push(stdout);
  }
  t.match(shown[0], /port_value: 8081/, 'the cloud, at first');
  t.match(shown[1], /port_value: 8082/, 'on-prem, after the switch');
  t.match(shown[1], /cluster_name: xdstp:\/\/cloud\.example\.com\//, 'under the subscribed name');
});
