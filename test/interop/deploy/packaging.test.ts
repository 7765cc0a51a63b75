/**
 * Goal: the image, the unit and the chart in deploy/ are what docs/DEPLOY.md says: valid, without privileges, and
 * complete.
 * Method: the strictest tool for each that needs no container engine and no cluster. What only those could show is
 * not tested.
 */
import { execFile, spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { parse, parseAllDocuments } from 'yaml';
import { peerPath, projectRoot, skipWithout } from '../peers/provisioned.js';

const execute = promisify(execFile);
const inDeploy = (path: string): string => join(projectRoot, 'deploy', path);

function temporaryFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-deploy-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true });
  });
  return folder;
}

// ---------------------------------------------------------------------------------------------- image

const dockerfile = inDeploy('container/Dockerfile');

t.test('hadolint finds nothing in the Dockerfile', { skip: skipWithout('hadolint') }, async () => {
  await execute(peerPath('hadolint'), ['--failure-threshold', 'style', '--no-color', dockerfile]);
});

t.test('the image runs Node.js 24 without a shell, as a user that is not root', (t) => {
  const text = readFileSync(dockerfile, 'utf8');
  const stages = [...text.matchAll(/^FROM (\S+)/gm)].map(([, image = '']) => image);
  t.match(stages, [/^node:24\.\d+\.\d+-/, /^gcr\.io\/distroless\/nodejs24-[^:]*:nonroot$/]);
  t.match(text.slice(text.lastIndexOf('FROM')), /^USER 65532:65532$/m);
  t.end();
});

t.test('the files in the image suffice to run the gateway', async (t) => {
  const text = readFileSync(dockerfile, 'utf8');
  const [first = '', last = ''] = text.split(/^FROM .*$/m).slice(1);
  for (const [, paths = ''] of first.matchAll(/^COPY (.+) \S+$/gm)) {
    for (const path of paths.split(' ')) {
      t.ok(existsSync(join(projectRoot, path)), `the build copies ${path}`);
      const ignored = readFileSync(join(projectRoot, '.dockerignore'), 'utf8').split('\n');
      t.ok(ignored.includes(`!${path.replace('./', '')}`), `.dockerignore lets ${path} in`);
    }
  }
  const app = temporaryFolder(t);
  const copied = [...last.matchAll(/^COPY --from=build \/src\/(\S+) (\S+)$/gm)];
  t.ok(copied.length >= 6);
  for (const [, from = '', to = ''] of copied) {
    const target = to.endsWith('/')
      ? join(app, to, from.slice(from.lastIndexOf('/') + 1))
      : join(app, to);
    // The dependencies are those of development too: package.test.ts installs the others alone.
    if (from === 'node_modules') symlinkSync(join(projectRoot, from), target);
    else cpSync(join(projectRoot, from), target, { recursive: true });
  }
  const command = JSON.parse(/^CMD (.+)$/m.exec(last)?.[1] ?? '[]') as readonly string[];
  const main = command.find((part) => part.startsWith('/app/')) ?? '';
  const flags = command.slice(0, command.indexOf(main));
  const map = join(projectRoot, 'examples/quickstart/authority-map.yaml');
  const started = [...flags, join(app, main.replace('/app/', ''))];
  const { stdout } = await execute(process.execPath, [...started, 'validate', map]);
  t.match(stdout, /ok|valid/i);
});

// ---------------------------------------------------------------------------------------------- unit

const unit = inDeploy('systemd/tributary.service');
/** Of 100; what stays is the network, and that V8 compiles to machine code. */
const MAX_EXPOSURE = 13;

async function noSystemd(): Promise<string | false> {
  try {
    await execute('systemd-analyze', ['--version']);
    return false;
  } catch {
    const reason = 'systemd-analyze is not installed';
    if (process.env['CI'] === 'true') throw new Error(reason);
    return reason;
  }
}

t.test(
  'systemd accepts the unit and rates it as hardened',
  { skip: await noSystemd() },
  async (t) => {
    const file = join(temporaryFolder(t), 'tributary.service');
    // Node.js may be elsewhere on this machine; `verify` wants to see it.
    const text = readFileSync(unit, 'utf8');
    writeFileSync(file, text.replace('ExecStart=/usr/bin/node', `ExecStart=${process.execPath}`));
    const { stdout, stderr } = await execute('systemd-analyze', ['verify', '--man=no', file]);
    t.equal(stdout + stderr, '', 'not even a warning');
    const threshold = `--threshold=${MAX_EXPOSURE}`;
    await execute('systemd-analyze', ['security', '--offline=true', '--no-pager', threshold, file]);
  },
);

// ---------------------------------------------------------------------------------------------- chart

type Manifest = Readonly<Record<string, unknown>> & {
  readonly kind: string;
  readonly spec: Readonly<Record<string, unknown>>;
};

const chart = inDeploy('helm/tributary');
const noHelm = skipWithout('kubernetes-tools');
const helm = (...args: readonly string[]) =>
  execute(join(dirname(peerPath('kubernetes-tools')), 'helm'), args);

/** @param more flags of `helm template` */
async function render(values: string, ...more: readonly string[]): Promise<string> {
  const flags = ['--namespace', 'xds', '--kube-version', '1.34.0', ...more];
  const file = join(chart, 'ci', `${values}-values.yaml`);
  return (await helm('template', 'edge', chart, '--values', file, ...flags)).stdout;
}

const manifestsIn = (text: string): readonly Manifest[] =>
  parseAllDocuments(text).map((document) => document.toJS() as Manifest);

function only(manifests: readonly Manifest[], kind: string): Manifest {
  const [one, ...more] = manifests.filter((each) => each.kind === kind);
  if (one === undefined || more.length > 0) throw new Error(`not one ${kind}`);
  return one;
}

/** Decodes each document into the Go type of its kind; an unknown field is an error. */
function decodeStrictly(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(peerPath('kubernetes-tools'), { stdio: ['pipe', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.on('data', (bytes: Buffer) => (output += bytes.toString()));
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve(output);
      else reject(new Error(output));
    });
    child.stdin.end(text);
  });
}

const SECURITY = {
  allowPrivilegeEscalation: false,
  privileged: false,
  readOnlyRootFilesystem: true,
  runAsNonRoot: true,
  runAsUser: 65532,
  capabilities: { drop: ['ALL'] },
  seccompProfile: { type: 'RuntimeDefault' },
};

for (const values of ['least', 'most']) {
  t.test(
    `the chart with the ${values} values is valid and hardened`,
    { skip: noHelm },
    async (t) => {
      await helm('lint', '--strict', chart, '--values', join(chart, 'ci', `${values}-values.yaml`));
      const text = await render(values);
      await decodeStrictly(text);
      const manifests = manifestsIn(text);
      const pod = only(manifests, 'Deployment').spec['template'] as Manifest & Labelled;
      const [container] = pod.spec['containers'] as readonly Readonly<Record<string, unknown>>[];
      t.match(container?.['securityContext'], SECURITY);
      t.match(pod.spec, { automountServiceAccountToken: false });
      const probed = { httpGet: { port: 'probes' } };
      t.match(container, { startupProbe: probed, livenessProbe: probed, readinessProbe: probed });
      t.match(container?.['resources'], {
        requests: { cpu: /./, memory: /./ },
        limits: { memory: /./ },
      });
      for (const kind of ['PodDisruptionBudget', 'Service']) {
        const { selector } = only(manifests, kind).spec as { readonly selector: Selector };
        const labels = 'matchLabels' in selector ? selector.matchLabels : selector;
        t.match(pod.metadata.labels, labels, `${kind} selects the pods`);
      }
      const drainMs = Number(/drain_grace: (\d+)s/.exec(text)?.[1]) * 1_000;
      const graceMs = Number(pod.spec['terminationGracePeriodSeconds']) * 1_000;
      t.ok(graceMs > drainMs, 'a pod may drain to its end');
    },
  );
}

interface Labelled {
  readonly metadata: { readonly labels: Readonly<Record<string, string>> };
}
type Labels = Readonly<Record<string, string>>;
type Selector = { readonly matchLabels: Labels } | Labels;

t.test(
  'an unknown field of a manifest is an error, so the check can fail',
  { skip: noHelm },
  async (t) => {
    const text = await render('most');
    await t.rejects(decodeStrictly(text.replace('readOnlyRootFilesystem', 'readOnlyRootFs')), {
      message: /unknown field.*readOnlyRootFs/,
    });
  },
);

t.test('NATS and the admin port are there only when asked for', { skip: noHelm }, async (t) => {
  const [least, most] = [await render('least'), await render('most')];
  t.notMatch(least, /nats|name: admin/);
  t.match(most, /password_file: \/etc\/tributary-nats\/password/);
  const openIn = (text: string): readonly unknown[] => {
    const { ingress } = only(manifestsIn(text), 'NetworkPolicy').spec as {
      readonly ingress: readonly { readonly from?: unknown; readonly ports: readonly [Ported] }[];
    };
    return ingress.map(({ from, ports: [{ port }] }) => [port, from !== undefined]);
  };
  const always = [
    ['xds', true],
    ['probes', false],
  ];
  t.strictSame(openIn(most), [...always, ['admin', true]]);
  const noScraper = await render('most', '--set-json', 'networkPolicy.metrics=[]');
  t.strictSame(openIn(noScraper), always, 'without a peer, no pod reaches the admin port');
});

interface Ported {
  readonly port: string;
}

t.test(
  'the chart refuses values that cannot work, with the remedy',
  { skip: noHelm },
  async (t) => {
    const refused = async (flag: string, message: RegExp): Promise<void> => {
      await t.rejects(render('least', '--set-json', flag), { message }, flag);
    };
    await refused('client.insecure=false', /client\.tlsSecret is not set: name a Secret/);
    await refused('client.mutualTls=true', /mutualTls needs client\.tlsSecret/);
    await refused('nats.enabled=true', /nats/);
    await refused('replicas=3', /replicas/);
    await refused('settings.client={"port":1}', /settings/);
    await refused('authorityMap=null', /authorityMap/);
  },
);

t.test(
  'a change of the map restarts no pod, a change of the settings does',
  { skip: noHelm },
  async (t) => {
    const checksum = async (...more: readonly string[]): Promise<unknown> =>
      /checksum\/settings: (\w+)/.exec(await render('most', ...more))?.[1];
    const before = await checksum();
    t.equal(await checksum('--set', 'authorityMap.sources.other.path=/x'), before);
    t.not(await checksum('--set', 'settings.log.level=warn'), before);
  },
);

t.test('chart and package have the same version', (t) => {
  const { appVersion } = parse(readFileSync(join(chart, 'Chart.yaml'), 'utf8')) as {
    readonly appVersion: string;
  };
  const { version } = JSON.parse(readFileSync(join(projectRoot, 'package.json'), 'utf8')) as {
    readonly version: string;
  };
  t.equal(appVersion, version);
  t.end();
});
