/** Goal: the gateway reads only regular files under a limit, and never blocks on another file. */
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { readRegularFile } from '../../../config/regular-file.js';

function folder(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-regular-'));
  t.teardown(() => {
    rmSync(directory, { recursive: true, force: true });
  });
  return directory;
}

t.test(
  'a regular file is read whole, also through a symbolic link, also when its size is 0',
  (t) => {
    const directory = folder(t);
    const file = join(directory, 'file');
    writeFileSync(file, 'content');
    symlinkSync(file, join(directory, 'link'));
    t.equal(readRegularFile(join(directory, 'link')).toString(), 'content');
    t.match(readRegularFile('/proc/self/status').toString(), /^Name:.*\nVmHWM:/s);
    writeFileSync(file, '');
    t.equal(readRegularFile(file).length, 0);
    t.end();
  },
);

t.test('a directory, a pipe, a device and a socket are refused by name', async (t) => {
  const directory = folder(t);
  const pipe = join(directory, 'pipe');
  execFileSync('mkfifo', [pipe]);
  const socket = join(directory, 'socket');
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  t.teardown(() => {
    server.close();
  });
  for (const [path, reason] of [
    [directory, 'is a directory, not a regular file'],
    [pipe, 'is a pipe, not a regular file'],
    ['/dev/zero', 'is a device, not a regular file'],
    [socket, 'is a socket, not a regular file'],
  ] as const) {
    t.throws(() => readRegularFile(path), { message: reason });
  }
});

t.test('a file over the limit is refused unread, and one at the limit is read', (t) => {
  const file = join(folder(t), 'file');
  writeFileSync(file, '');
  truncateSync(file, 1_000);
  t.equal(readRegularFile(file, 1_000).length, 1_000);
  appendFileSync(file, 'x');
  t.throws(() => readRegularFile(file, 1_000), { message: /larger than the limit of 1000 bytes/ });
  // Its size is 0, so only reading shows how much it has.
  t.throws(() => readRegularFile('/proc/self/status', 100), { message: /larger than the limit/ });
  t.throws(() => readRegularFile(`${file}.absent`), { code: 'ENOENT' });
  t.end();
});
