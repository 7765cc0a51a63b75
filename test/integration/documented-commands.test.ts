/**
 * Goal: the commands of `tributary` in docs/ run, and not only parse. (Those of README.md and examples/ run in the
 * tests of these.)
 * Method: the built program in a folder with the files that the documents name, and a gateway with two clients. The
 * words that stand for a name, and the addresses of others, are replaced; nothing else is.
 */
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { encodeNode } from '../../protos/node-codec.js';
import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import { DeltaClient } from '../support/delta-client.js';
import { linesIn, PAGES, shellBlocksIn, tributaryWords } from '../support/documents.js';
import { CDS } from '../support/mesh-names.js';
import { program, root, serveExample } from '../support/program.js';
import { until } from '../support/until.js';

t.setTimeout(120_000);

const AUTHORITY = 'cloud.example.com';
const URN = `xdstp://${AUTHORITY}/envoy.config.cluster.v3.Cluster/edge/shop`;
/** An old-style name of the gateway of this test. */
const NAME = 'plain';

const NODE = { id: 'n', cluster: 'c', userAgentName: 'test', userAgentVersion: '1' };

/** What stands for a name → the name. */
const NAMES: Readonly<Record<string, string>> = { URN, NAME, AUTHORITY };

/** They run until they are ended: the line that ends them. */
const ENDLESS: Readonly<Record<string, RegExp>> = {
  serve: /"event":"gateway_ready"/,
  watch: /./,
};

interface World {
  readonly folder: string;
  readonly admin: string;
}

/** The files of the documents, a gateway on a map with old-style names, and a client of each kind of name. */
async function startWorld(t: Test): Promise<World> {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-documented-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const ca = await createCertificateAuthority('documents', 30);
  t.teardown(() => ca.remove());
  const { cert, key } = await ca.issue({ name: 'gateway', dnsNames: ['gw-1.example.com'] });
  cpSync(join(root, 'examples/quickstart'), folder, { recursive: true });
  for (const [from, to] of [
    [ca.ca, 'gateway-ca.pem'],
    [cert, 'tls.crt'],
    [key, 'tls.key'],
  ] as const) {
    cpSync(from, join(folder, to));
  }
  const map = join(folder, 'served-map.yaml');
  writeFileSync(
    join(folder, 'plain.yaml'),
    `"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: ${NAME}\n`,
  );
  writeFileSync(join(folder, 'settings.yaml'), 'authority_map: authority-map.yaml\n');
  const quickstart = readFileSync(join(folder, 'authority-map.yaml'), 'utf8');
  const sources = 'sources:\n  plain: { path: plain.yaml }\n';
  const names = 'old_style_names: { served_by: [{ sources: [plain] }] }\n';
  writeFileSync(map, quickstart.replace('sources:\n', sources) + names);
  const { admin, listen, stop } = await serveExample(map);
  t.teardown(stop);
  const port = Number(listen.split(':')[1]);
  const client = new DeltaClient({ port, node: encodeNode(NODE) });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(CDS, [URN, NAME]);
  await until('the client has both names', () => client.held(CDS).size === 2);
  return { folder, admin };
}

interface Ran {
  readonly code: number;
  readonly text: string;
}

function run(words: readonly string[], { folder, admin }: World): Promise<Ran> {
  const [name = ''] = words;
  const [host, port] = admin.split(':');
  const isServer = name === 'serve';
  const ports = isServer ? ['--client-port', '0', '--admin-port', '0', '--probe-port', '0'] : [];
  const place = isServer ? {} : { TRIBUTARY_ADMIN_HOST: host, TRIBUTARY_ADMIN_PORT: port };
  const env = { ...process.env, ...place };
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [program, ...words, ...ports], { cwd: folder, env });
    let text = '';
    createInterface({ input: child.stdout }).on('line', (line) => {
      text += `${line}\n`;
      if (ENDLESS[name]?.test(line)) child.kill('SIGTERM');
    });
    child.stderr.on('data', (bytes: Buffer) => (text += bytes.toString()));
    child.on('close', (code, signal) => {
      resolve({ code: signal === 'SIGTERM' ? 0 : (code ?? -1), text });
    });
  });
}

const skip = await opensslMissing();

t.test('the commands of tributary in docs/ run', { skip }, async (t) => {
  const world = await startWorld(t);
  const told = (words: readonly string[]): readonly string[] =>
    words.map((word) =>
      (NAMES[word] ?? word)
        // On loopback the listener needs no rules, and nobody else reaches it.
        .replace('0.0.0.0', '127.0.0.1')
        .replaceAll(/gw-\d:18900/g, world.admin),
    );
  let count = 0;
  for (const page of PAGES.filter((one) => one.startsWith('docs/'))) {
    for (const line of shellBlocksIn(page).flatMap(linesIn)) {
      const words = tributaryWords(line);
      if (words === undefined) continue;
      count++;
      const { code, text } = await run(told(words), world);
      // `diff` exits with 1 where the sources differ.
      const expected = words[0] === 'diff' ? [0, 1] : [0];
      t.ok(expected.includes(code), `${page}: ${line}\n${text}`);
    }
  }
  t.ok(count >= 25, `${count} commands`);
});
