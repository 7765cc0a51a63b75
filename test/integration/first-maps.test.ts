/**
 * Goal: each map of docs/guides/first-maps.md is right the first time.
 * Method: `tributary validate` and `tributary serve` on the map as the page has it, with the addresses of two
 * real servers with TLS; a delta client gets the content of the first server, and after its end that of the second.
 */
import { readFileSync } from 'node:fs';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as grpc from '@grpc/grpc-js';
import protobuf from 'protobufjs/minimal.js';
import t, { type Test } from 'tap';
import {
  createCertificateAuthority,
  opensslMissing,
  type CertificateAuthority,
} from '../support/certificates.js';
import { DeltaClient } from '../support/delta-client.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { root, runCommand, serveExample } from '../support/program.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';

t.setTimeout(120_000);

const CDS = TYPE_URLS.cluster;
const cloud = (path: string): string => xdstpName('cloud.example.com', 'cluster', path);
const onprem = (path: string): string => xdstpName('onprem.example.com', 'cluster', path);

interface FirstMap {
  readonly title: string;
  /** The server demands certificates. */
  readonly isMutual?: true;
  /** What the client asks for; the first server has the same name. */
  readonly name: string;
  /** The same name at the second server. */
  readonly second: string;
  /** Another name, which stays with the first server. */
  readonly stays?: string;
}

const MAPS: readonly FirstMap[] = [
  {
    title: 'Mutual TLS to both control planes',
    isMutual: true,
    name: cloud('edge/web'),
    second: onprem('edge/web'),
  },
  {
    title: 'Two servers for the same names',
    name: cloud('edge/web'),
    second: cloud('edge/web'),
  },
  {
    title: 'An alternative for one path',
    name: cloud('edge/web'),
    second: onprem('dc1/edge/web'),
    stays: cloud('core/web'),
  },
  {
    title: "Envoy's own config_sources",
    name: cloud('edge/web'),
    second: cloud('edge/web'),
  },
  {
    title: 'Old-style names beside `xdstp://` names',
    name: 'web',
    second: 'web',
    stays: cloud('edge/web'),
  },
];

/** Title → the map of each section of the page. */
const written = new Map(
  readFileSync(`${root}docs/guides/first-maps.md`, 'utf8')
    .split(/^## /m)
    .slice(1)
    .map((section) => [
      section.slice(0, section.indexOf('\n')),
      /```yaml\n(.*?)```/s.exec(section)?.[1] ?? '',
    ]),
);

/** The map with the addresses of these ports in place of those of the page. */
function withPorts(map: string, ports: Readonly<Record<'cloud' | 'onprem', number>>): string {
  let text = map;
  for (const [name, port] of Object.entries(ports)) {
    text = text
      .replaceAll(`xds.${name}.example.com:443`, `127.0.0.1:${port}`)
      .replaceAll(
        `address: xds.${name}.example.com, port_value: 443`,
        `address: 127.0.0.1, port_value: ${port}`,
      );
  }
  return text;
}

/** A Cluster with `alt_stat_name` (field 28) `from …`. */
function cluster(name: string, from: string): Uint8Array {
  const writer = protobuf.Writer.create().uint32(0x0a).string(name);
  return writer
    .uint32((28 << 3) | 2)
    .string(`from ${from}`)
    .finish();
}

const fromOf = (client: DeltaClient, name: string): string | undefined => {
  const body = client.content(CDS).get(name);
  return body && /from (\w+)$/.exec(Buffer.from(body).toString('latin1'))?.[1];
};

async function startServers(t: Test, ca: CertificateAuthority, isMutual: boolean) {
  const start = async (name: string): Promise<ScriptedUpstream> => {
    const pair = await ca.issue({ name, ipAddresses: ['127.0.0.1'] });
    const read = { cert_chain: readFileSync(pair.cert), private_key: readFileSync(pair.key) };
    const credentials = grpc.ServerCredentials.createSsl(readFileSync(ca.ca), [read], isMutual);
    return stoppedWith(t, ScriptedUpstream.start(undefined, credentials));
  };
  return { first: await start('cloud'), second: await start('onprem') };
}

const skip = await opensslMissing();

t.test('the page has these maps and no others', (t) => {
  t.strictSame(
    [...written.keys()],
    MAPS.map(({ title }) => title),
  );
  t.end();
});

for (const { title, isMutual = false, name, second, stays } of MAPS) {
  t.test(
    `docs/guides/first-maps.md, "${title}": valid, served, and failed over`,
    { skip },
    async (t) => {
      const ca = await createCertificateAuthority('test CA', 30);
      t.teardown(() => ca.remove());
      const folder = await mkdtemp(join(tmpdir(), 'tributary-first-map-'));
      t.teardown(() => rm(folder, { recursive: true, force: true }));
      const client = await ca.issue({ name: 'client' });
      await cp(ca.ca, join(folder, 'ca.pem'));
      await cp(client.cert, join(folder, 'client.pem'));
      await cp(client.key, join(folder, 'client.key'));
      const servers = await startServers(t, ca, isMutual);
      servers.first.put(CDS, name, cluster(name, 'cloud'));
      servers.second.put(CDS, second, cluster(second, 'onprem'));
      if (stays !== undefined) servers.first.put(CDS, stays, cluster(stays, 'cloud'));
      const file = join(folder, 'authority-map.yaml');
      const ports = { cloud: servers.first.port, onprem: servers.second.port };
      await writeFile(file, withPorts(written.get(title) ?? '', ports));
      t.match(await runCommand(['validate', file]), { code: 0, stderr: '' }, '0 problems');
      const gateway = await serveExample(file);
      t.teardown(gateway.stop);
      const ads = new DeltaClient({ port: Number(gateway.listen.split(':')[1]) });
      t.teardown(() => {
        ads.close();
      });
      ads.subscribe(CDS, stays === undefined ? [name] : [name, stays]);
      await until('the first server is served', () => fromOf(ads, name) === 'cloud');
      if (stays !== undefined) {
        await until('the other name too', () => fromOf(ads, stays) === 'cloud');
      }
      await servers.first.stop();
      await until('the second server is served', () => fromOf(ads, name) === 'onprem');
      if (stays !== undefined) t.equal(fromOf(ads, stays), 'cloud', 'the other name stays');
      t.strictSame(ads.removals(CDS), []);
    },
  );
}
