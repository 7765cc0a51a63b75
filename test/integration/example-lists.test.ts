/**
 * Goal: the README of examples/lists is true.
 * Method: the commands of that README, against the example served by the built program.
 */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { root, runCommand, serveExample } from '../support/program.js';

const readme = readFileSync(`${root}examples/lists/README.md`, 'utf8');
const commands = [...readme.matchAll(/^npx tributary (.*)$/gm)].map(([, words = '']) =>
  words.split(' ').map((word) => word.replaceAll('"', '')),
);

const versionIn = (text = ''): string | undefined => /\bversion:? (\S+)/.exec(text)?.[1];

t.test('the commands of examples/lists succeed and show the described output', async (t) => {
  t.equal(commands.length, 6);
  const { admin, stop } = await serveExample('examples/lists/authority-map.yaml');
  t.teardown(stop);
  const outputs: string[] = [];
  for (const words of commands.slice(1)) {
    const { code, stdout, stderr } = await runCommand([...words, '--admin', admin]);
    t.equal(code, 0, `${words.join(' ')}\n${stdout}${stderr}`);
    outputs.push(stdout);
  }
  const [list, entry, ingress, explained] = outputs;
  t.match(list, /count: 3/, 'three members');
  t.match(entry, /port_value: 10001/);
  t.match(ingress, /name: \S+\/ingress\n[^]*port_value: 10002/, 'under the subscribed name');
  t.match(ingress, /^source: \(another name\)$/m, 'its own name has only the redirect');
  t.match(explained, /served +version \S+ from \(another name\)/);
  t.equal(versionIn(explained), versionIn(ingress), 'explain and get show the same version');
  t.match(explained, /redirect +xdstp:\/\/mesh\.example\.com\S+\/ingress-v2/);
  const shop = 'xdstp://team-b.example.com/envoy.config.listener.v3.Listener/shop';
  const alternative = 'xdstp://spare.example.com/envoy.config.listener.v3.Listener/shop-readonly';
  const { stdout } = await runCommand(['get', `${shop}#alt=${alternative}`, '--admin', admin]);
  t.match(stdout, /port_value: 10004/, 'the alternative, after the switch');
});
