/**
 * Goal: a directory of resources is read completely, followed through all common ways of replacing
 * files, and keeps its last good state on errors.
 * Method: a real directory; each change is awaited by the load that it causes.
 */
import { EventEmitter } from 'node:events';
import fs, { type FSWatcher } from 'node:fs';
import { mkdir, mkdtemp, open, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { finished } from '../support/finished.js';
import { discoveryResponseFromJson } from '../../protos/rest-source-json.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { FilesystemSource } from '../../authorities/filesystem-source.js';

const name = (id: string): string =>
  `xdstp://files/envoy.config.endpoint.v3.ClusterLoadAssignment/${id}`;
const assignment = (id: string): string =>
  `"@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\ncluster_name: ${name(id)}\n`;

interface Watched {
  readonly root: string;
  readonly source: FilesystemSource;
  /** Resolves with the next load that has exactly these ids. */
  readonly loaded: (...ids: readonly string[]) => Promise<void>;
  /** Resolves with the first problem, or a later one, that matches. */
  readonly problem: (pattern: RegExp, nth?: number) => Promise<string>;
  readonly unreadable: () => number;
}

async function watchDirectory(t: Test, path = ''): Promise<Watched> {
  const root = await mkdtemp(join(tmpdir(), 'tributary-files-'));
  let names: readonly string[] = [];
  const problems: string[] = [];
  let unreadable = 0;
  const waiting = new Set<() => void>();
  const tell = (): void => {
    for (const check of waiting) check();
  };
  const when = <T>(probe: () => T | undefined): Promise<T> =>
    new Promise((resolve) => {
      const check = (): void => {
        const found = probe();
        if (found === undefined) return;
        waiting.delete(check);
        resolve(found);
      };
      waiting.add(check);
      check();
    });
  const source = new FilesystemSource(
    { kind: 'path', name: 'files', path: join(root, path) },
    {
      onPart: () => undefined,
      onLoaded: ({ resources }) => {
        names = resources.map((resource) => resource.name).sort();
        tell();
      },
      onUnreadable: () => {
        unreadable++;
      },
      onProblems: (texts) => {
        problems.push(...texts);
        tell();
      },
    },
  );
  // The watch itself does not keep the process alive.
  const alive = setInterval(() => undefined, 1_000);
  t.teardown(async () => {
    clearInterval(alive);
    source.close();
    await rm(root, { recursive: true, force: true });
  });
  return {
    root,
    source,
    loaded: async (...ids) => {
      const wanted = ids.map(name).sort().join();
      await when(() => (names.join() === wanted ? true : undefined));
    },
    problem: (pattern, nth = 1) =>
      when(() => problems.filter((text) => pattern.test(text))[nth - 1]),
    unreadable: () => unreadable,
  };
}

/** A subdirectory with one resource, which is loaded. */
async function watchMount(t: Test): Promise<Watched & { readonly mounted: string }> {
  const watched = await watchDirectory(t, 'mounted');
  const mounted = join(watched.root, 'mounted');
  await mkdir(mounted);
  await writeFile(join(mounted, 'a.yaml'), assignment('one'));
  watched.source.start();
  await watched.loaded('one');
  return { ...watched, mounted };
}

t.test('files in a directory and below it are one set, and changes are followed', async (t) => {
  const { root, source, loaded } = await watchDirectory(t);
  await mkdir(join(root, 'team'));
  await writeFile(join(root, 'a.yaml'), assignment('a'));
  await writeFile(
    join(root, 'team', 'b.json'),
    JSON.stringify({
      '@type': 'type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment',
      cluster_name: name('b'),
    }),
  );
  await writeFile(join(root, 'notes.txt'), 'not a resource');
  source.start();
  await loaded('a', 'b');
  await writeFile(join(root, 'c.yml'), assignment('c'));
  await loaded('a', 'b', 'c');
  await unlink(join(root, 'a.yaml'));
  await loaded('b', 'c');
  await mkdir(join(root, 'late'));
  await writeFile(join(root, 'late', 'd.yaml'), assignment('d'));
  await loaded('b', 'c', 'd');
  await writeFile(join(root, 'late', 'e.yaml'), assignment('e'));
  await loaded('b', 'c', 'd', 'e');
});

t.test('hidden files are not read: locks of editors, leftovers of file systems', async (t) => {
  const { root, loaded, source } = await watchDirectory(t);
  await symlink('someone@host.1:2', join(root, '.#a.yaml'));
  await writeFile(join(root, '._a.yaml'), '\0');
  await writeFile(join(root, 'a.yaml'), assignment('a'));
  source.start();
  await loaded('a');
  t.strictSame(source.problems, []);
});

t.test('a file that is written in place, slowly, never loses its resources', async (t) => {
  const { root, loaded, problem, source } = await watchDirectory(t);
  const file = join(root, 'a.yaml');
  await writeFile(file, `${assignment('one')}---\n${assignment('two')}`);
  source.start();
  await loaded('one', 'two');
  const written = await open(file, 'w');
  t.match(await problem(/is empty/), /a\.yaml: is empty.*write \[\] into it/);
  await written.writeFile(['one', 'two', 'three'].map(assignment).join('---\n'));
  await written.close();
  await loaded('one', 'two', 'three');
});

t.test('a directory that loses its last file keeps its content, and says so', async (t) => {
  const { root, mounted, loaded, problem, unreadable } = await watchMount(t);
  await rename(join(mounted, 'a.yaml'), join(root, 'a.yaml'));
  t.match(await problem(/no resource file/), /mounted: has no resource file any more/);
  await writeFile(join(mounted, 'b.yaml'), assignment('two'));
  await loaded('two');
  t.equal(unreadable(), 1, 'so the deletion guard judges what it lacks now');
  await writeFile(join(mounted, 'b.yaml'), '[]');
  await loaded();
});

t.test(
  'a directory that is away for a while and comes back without files keeps its content',
  async (t) => {
    const { root, mounted, loaded, problem } = await watchMount(t);
    await rename(mounted, join(root, 'away'));
    await problem(/mounted: cannot be read/);
    await mkdir(mounted);
    t.match(await problem(/no resource file/), /mounted: has no resource file any more/);
    await loaded('one');
  },
);

t.test('what changes beside a directory is no reason to read it', async (t) => {
  const { root, source, loaded } = await watchDirectory(t, 'resources');
  await mkdir(join(root, 'resources'));
  await writeFile(join(root, 'resources', 'a.yaml'), assignment('one'));
  const { readdirSync, watch } = fs;
  t.teardown(() => {
    fs.watch = watch;
    fs.readdirSync = readdirSync;
    mock.timers.reset();
    syncBuiltinESMExports();
  });
  let changed: (event: string, entry: string) => void = () => undefined;
  fs.watch = ((directory: string, _options: unknown, listener: typeof changed) => {
    if (directory === root) changed = listener;
    return Object.assign(new EventEmitter(), { close: () => undefined }) as FSWatcher;
  }) as typeof watch;
  let reads = 0;
  fs.readdirSync = ((...args: Parameters<typeof readdirSync>) => {
    reads++;
    return readdirSync(...args);
  }) as typeof readdirSync;
  syncBuiltinESMExports();
  source.start();
  await loaded('one');
  mock.timers.enable({ apis: ['setTimeout'] });
  reads = 0;
  changed('change', 'log.jsonl');
  mock.timers.tick(1_000);
  t.equal(reads, 0);
  changed('rename', 'resources');
  mock.timers.tick(1_000);
  t.ok(reads > 0);
});

t.test('a host without watches left is a problem, and the directory is read again', async (t) => {
  const { root, loaded, problem, source } = await watchDirectory(t);
  const { watch } = fs;
  const restore = (): void => {
    fs.watch = watch;
    syncBuiltinESMExports();
  };
  t.teardown(restore);
  fs.watch = () => {
    throw Object.assign(new Error('no space left on device, watch'), { code: 'ENOSPC' });
  };
  syncBuiltinESMExports();
  source.start();
  t.match(await problem(/watched/), /ENOSPC: it is read every 5 s \(raise fs\.inotify/);
  await writeFile(join(root, 'a.yaml'), assignment('one'));
  restore();
  await loaded('one');
  t.strictSame(source.problems, [], 'now it is watched');
  await writeFile(join(root, 'b.yaml'), assignment('two'));
  await loaded('one', 'two');
});

t.test('a file replaced by rename, as editors do, is read again', async (t) => {
  const { root, source, loaded } = await watchDirectory(t);
  await writeFile(join(root, 'a.yaml'), assignment('a'));
  source.start();
  await loaded('a');
  await writeFile(join(root, '.a.yaml.swp'), assignment('b'));
  await rename(join(root, '.a.yaml.swp'), join(root, 'a.yaml'));
  await loaded('b');
});

t.test(
  'a directory replaced by switching a symbolic link, as with mounted config maps, is read again',
  async (t) => {
    const { root, source, loaded } = await watchDirectory(t, 'current');
    for (const version of ['v1', 'v2']) {
      await mkdir(join(root, version));
      await writeFile(join(root, version, 'a.yaml'), assignment(version));
    }
    await symlink('v1', join(root, 'current'));
    source.start();
    await loaded('v1');
    await symlink('v2', join(root, 'next'));
    await rename(join(root, 'next'), join(root, 'current'));
    await loaded('v2');
  },
);

t.test(
  'a broken file keeps its last good content, and the problem has file, line and column',
  async (t) => {
    const { root, source, loaded, problem } = await watchDirectory(t);
    await writeFile(join(root, 'a.yaml'), assignment('a'));
    await writeFile(join(root, 'b.yaml'), assignment('b'));
    source.start();
    await loaded('a', 'b');
    await writeFile(join(root, 'b.yaml'), assignment('b') + 'endpoint: []\n');
    t.match(await problem(/b\.yaml/), /b\.yaml:3:1: .*endpoint/);
    await writeFile(join(root, 'c.yaml'), assignment('c'));
    await loaded('a', 'b', 'c');
    await writeFile(join(root, 'b.yaml'), assignment('b2'));
    await loaded('a', 'b2', 'c');
  },
);

t.test(
  'a directory that does not exist yet, or vanished, is a problem and not an empty set',
  async (t) => {
    const { root, source, loaded, problem } = await watchDirectory(t, 'resources');
    source.start();
    t.match(await problem(/resources/), /there is no such file or directory/);
    await mkdir(join(root, 'resources'));
    await writeFile(join(root, 'resources', 'a.yaml'), assignment('a'));
    await loaded('a');
  },
);

t.test(
  'a directory whose parents vanish or do not exist yet is read when it is there',
  async (t) => {
    const { root, source, loaded, problem } = await watchDirectory(t, 'release/mesh/resources');
    source.start();
    t.match(await problem(/resources/), /there is no such file or directory/);
    await mkdir(join(root, 'next', 'mesh', 'resources'), { recursive: true });
    await writeFile(join(root, 'next', 'mesh', 'resources', 'a.yaml'), assignment('a'));
    await rename(join(root, 'next'), join(root, 'release'));
    await loaded('a');
    await rename(join(root, 'release'), join(root, 'gone'));
    await problem(/resources: cannot be read: there is no such/, 2);
    await writeFile(join(root, 'gone', 'mesh', 'resources', 'a.yaml'), assignment('b'));
    await rename(join(root, 'gone'), join(root, 'release'));
    await loaded('b');
  },
);

t.test('files in the forms that Envoy reads are found by their suffixes', async (t) => {
  const { root, source, loaded, problem } = await watchDirectory(t);
  const typeUrl = TYPE_URL.clusterLoadAssignment;
  const json = JSON.stringify({ resources: [{ '@type': typeUrl, cluster_name: name('ä') }] });
  const encoded = finished(discoveryResponseFromJson(json, typeUrl, ''));
  if (!encoded.ok) throw new Error(encoded.reason);
  await writeFile(join(root, 'a.pb'), encoded.message.bytes);
  const text = `resources { [${typeUrl}] { cluster_name: "${name('b')}" } }`;
  await writeFile(join(root, 'b.pb_text'), text);
  await writeFile(
    join(root, 'c.yaml'),
    `version_info: "1"\ntype_url: ${typeUrl}\nresources: [{ "@type": ${typeUrl}, cluster_name: "${name('c')}" }]`,
  );
  source.start();
  await loaded('ä', 'b', 'c');
  await writeFile(join(root, 'b.pb_text'), 'resources {');
  t.match(await problem(/b\.pb_text/), /b\.pb_text:1:12: the file ends/);
  await loaded('ä', 'b', 'c');
});
