/**
 * Goal: metrics of the process, of reloads and of certificates hold what an alert compares: standard names, Unix
 * times in seconds, and no value where nothing is known.
 */
import { X509Certificate } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { AuthorityMap } from '../../../../config/model.js';
import {
  CertificateEnds,
  type ListenerCertificates,
} from '../../../../gateway/telemetry/certificate-ends.js';
import { MapReloads } from '../../../../gateway/telemetry/map-reloads.js';
import { Metrics } from '../../../../gateway/telemetry/metrics.js';
import { ProcessFacts } from '../../../../gateway/telemetry/process-facts.js';
import { createCertificateAuthority, opensslMissing } from '../../../support/certificates.js';
import { joined } from '../../../support/metrics-text.js';

interface Shows {
  put(put: (name: string, labels: readonly string[], value: number) => void): void;
}

function shown(shows: Shows): ReadonlyMap<string, number> {
  const values = new Map<string, number>();
  shows.put((name, labels, value) => {
    values.set([name, ...labels].join(' '), value);
  });
  return values;
}

t.test('the standard process metrics have the values of this process', async (t) => {
  const facts = new ProcessFacts();
  const metrics = new Metrics();
  await facts.read(metrics);
  const values = shown(facts);
  const at = (name: string): number => values.get(name) ?? NaN;
  const sinceStart = Date.now() / 1_000 - at('process_start_time_seconds');
  t.ok(sinceStart > 0 && sinceStart < 3_600);
  t.ok(at('process_resident_memory_bytes') > 1 << 20);
  t.ok(metrics.tally('process_cpu_seconds_total').count > 0.01);
  if (process.platform !== 'linux') return;
  t.ok(at('process_virtual_memory_bytes') >= at('process_resident_memory_bytes'));
  t.ok(at('process_open_fds') >= 3 && at('process_open_fds') <= at('process_max_fds'));
  t.ok(at('process_threads') >= 1);
});

t.test('a gauge that no part sets in a scrape is absent, not 0', async (t) => {
  const metrics = new Metrics();
  metrics.collect = (put) => {
    put('tributary_clients', [], 0);
    return [].values();
  };
  t.match(await joined(metrics.pieces()), /^tributary_clients 0$/m);
  t.notMatch(await joined(metrics.pieces()), /^tributary_peers_connected /m);
});

t.test('a refused map is shown until the file is valid again, changed or not', (t) => {
  let nowMs = 10_000;
  const reloads = new MapReloads(new Metrics(), () => nowMs);
  const state = (): readonly (number | undefined)[] => {
    const values = shown(reloads);
    return [
      values.get('tributary_map_last_reload_successful'),
      values.get('tributary_map_last_reload_success_timestamp_seconds'),
    ];
  };
  t.strictSame(state(), [1, 10], 'the map of the start');
  nowMs = 20_000;
  reloads.count('refused');
  t.strictSame(state(), [0, 10]);
  reloads.count('unchanged');
  t.strictSame(state(), [1, 20], 'the operator restored the file');
  nowMs = 30_000;
  reloads.count('applied');
  t.strictSame(state(), [1, 30]);
  t.end();
});

const grpcSource = (name: string, tls: object | null, kind = 'grpc') => ({ kind, name, tls });
const mapOf = (...sources: readonly { readonly name: string }[]): AuthorityMap =>
  ({ sources: new Map(sources.map((one) => [one.name, one])) }) as unknown as AuthorityMap;

t.test('each certificate has its end, the listener that of the one in use', async (t) => {
  const missing = await opensslMissing();
  if (missing !== false) {
    t.pass(`skipped: ${missing}`);
    return;
  }
  const authority = await createCertificateAuthority();
  t.teardown(() => authority.remove());
  const { directory } = authority;
  const leaf = await authority.issue({ name: 'leaf' });
  const roots = join(directory, 'roots.pem');
  const longer = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=long'];
  const files = ['-keyout', join(directory, 'long.key'), '-out', join(directory, 'long.pem')];
  execFileSync('openssl', [...longer, ...files, '-days', '400'], { stdio: 'ignore' });
  const leafPem = readFileSync(leaf.cert);
  const longPem = readFileSync(join(directory, 'long.pem'));
  const bundle = Buffer.concat([leafPem, longPem]);
  writeFileSync(roots, bundle);
  const junk = join(directory, 'junk.pem');
  writeFileSync(junk, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
  const endOf = (pem: Buffer): number => Date.parse(new X509Certificate(pem).validTo) / 1_000;
  let nowMs = 0;
  const inUse: { listener?: ListenerCertificates } = {};
  const ends = new CertificateEnds({
    listener: () => inUse.listener,
    map: () =>
      mapOf(
        grpcSource('mutual', { certChainFile: leaf.cert, rootCertsFile: roots }),
        grpcSource('chain', { certChainFile: roots, rootCertsFile: directory }),
        grpcSource('broken', { certChainFile: junk, rootCertsFile: '/dev/zero' }),
        grpcSource('plain', null),
        grpcSource('files', null, 'path'),
      ),
    admin: { certChainFile: leaf.cert, privateKeyFile: leaf.key, clientCaFile: roots },
    nats: { certFile: leaf.cert, caFile: join(directory, 'absent.pem') },
    clock: () => nowMs,
  });
  const metric = 'tributary_certificate_expiry_timestamp_seconds';
  const fromFiles = {
    [`${metric} source mutual`]: endOf(leafPem),
    [`${metric} source_ca mutual`]: endOf(longPem),
    [`${metric} source chain`]: endOf(leafPem),
    [`${metric} admin `]: endOf(leafPem),
    [`${metric} admin_ca `]: endOf(longPem),
    [`${metric} nats `]: endOf(leafPem),
  };
  await ends.read();
  t.strictSame(Object.fromEntries(shown(ends)), fromFiles);
  inUse.listener = { cert: bundle, clientCa: bundle };
  await ends.read();
  t.notOk(shown(ends).has(`${metric} listener `), 'files are read at most once in 30 s');
  nowMs = 30_000;
  await ends.read();
  t.strictSame(Object.fromEntries(shown(ends)), {
    ...fromFiles,
    [`${metric} listener `]: endOf(leafPem),
    [`${metric} client_ca `]: endOf(longPem),
  });
});
