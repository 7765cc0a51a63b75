/**
 * Goal: a file that cannot be read is named with the cause and a remedy (docs/OPERATIONS.md).
 * Method: real files, links, pipes and directories. Where rights matter, a process that they bind reads the file.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { readableAt, readNamedFile, unreadableFile } from '../../../config/unreadable-file.js';
import { rightsMissing, runWithinRights } from '../../support/file-rights.js';

function folderOf(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-unreadable-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  writeFileSync(join(folder, 'plain'), 'text');
  return folder;
}

const systemError = (code: string): Error =>
  Object.assign(new Error(`${code}: words of the system, read '/x'`), { code });

t.test('a path that leads to no file says at which part it ends', (t) => {
  const folder = folderOf(t);
  const at = (path: string): unknown => readableAt(join(folder, path));
  symlinkSync('nowhere', join(folder, 'dangling'));
  symlinkSync('circle', join(folder, 'circle'));
  mkdirSync(join(folder, 'directory'));
  execFileSync('mkfifo', [join(folder, 'pipe')]);
  const remedy = 'mend the link, or put the file in its place';
  const lost = 'is a link to "nowhere", and nothing is there';
  t.equal(at('plain'), 'file');
  t.equal(at('directory'), 'directory');
  t.strictSame(at('dangling'), { words: `it ${lost}`, remedy });
  t.strictSame(at('dangling/below'), { words: `${folder}/dangling ${lost}`, remedy });
  t.strictSame(at('circle'), { words: 'its symbolic links form a circle, ELOOP', remedy });
  t.strictSame(at('plain/below/it'), {
    words: `${folder}/plain is a file, not a directory, ENOTDIR`,
    remedy: 'correct the path',
  });
  t.strictSame(at('pipe'), {
    words: 'is a pipe, not a regular file',
    remedy: 'write the path of a file',
  });
  const isMissing = true;
  const words = 'there is no such file';
  const near = `did you mean "${folder}/plain"?`;
  t.strictSame(at('plian'), { words, remedy: near, isMissing });
  t.strictSame(at('directory/nothing'), { words, isMissing });
  t.throws(() => readNamedFile(join(folder, 'plian')), {
    code: 'unreadable_file',
    message: `${folder}/plian cannot be read: ${words} (${near})`,
  });
  t.equal(readNamedFile(join(folder, 'plain')).toString(), 'text');
  t.end();
});

t.test('an error without a remedy has the words of the system, and the path once', (t) => {
  const { message, remedy } = unreadableFile('x', '/x', systemError('EIO'));
  t.equal(message, 'cannot be read: EIO: words of the system');
  t.equal(remedy, undefined);
  t.match(unreadableFile('x', '/no/x', 'odd'), { message: 'cannot be read: odd' });
  t.match(unreadableFile('x', '/no/x', systemError('ENOENT')), {
    remedy: 'relative paths are relative to the working directory',
  });
  t.equal(unreadableFile('/no/x', '/no/x', systemError('ENOENT')).remedy, undefined);
  // The cause may be gone before it is looked for.
  t.match(unreadableFile('x', '/no/x', systemError('ENOTDIR')), {
    message: 'cannot be read: a part of its path is a file, not a directory, ENOTDIR',
  });
  t.end();
});

const skip = await rightsMissing();

t.test('a file or directory without rights is told apart, EACCES', { skip }, async (t) => {
  const folder = folderOf(t);
  mkdirSync(join(folder, 'closed'));
  for (const path of ['plain', 'closed']) chmodSync(join(folder, path), 0o000);
  t.teardown(() => {
    chmodSync(join(folder, 'closed'), 0o700);
  });
  const script = `
    import { readableAt } from '${import.meta.resolve('../../../config/unreadable-file.js')}';
    const found = ['plain', 'closed', 'closed/below'].map((path) => readableAt('${folder}/' + path));
    console.log(JSON.stringify(found));`;
  const { out, err } = await runWithinRights(['--input-type=module', '--eval', script], folder);
  t.equal(err, '');
  const mayNotRead = {
    words: 'the user of this process may not read it, EACCES',
    remedy: 'give this user the right to read it',
  };
  t.strictSame(JSON.parse(out), [
    mayNotRead,
    mayNotRead,
    {
      words: `the user of this process may not enter ${folder}/closed, EACCES`,
      remedy: 'give this user the right to enter that directory',
    },
  ]);
});
