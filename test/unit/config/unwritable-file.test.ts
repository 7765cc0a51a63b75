/**
 * Goal: a file that cannot be written is named with the cause and a remedy (docs/OPERATIONS.md).
 * Method: real directories. Where rights matter, a process that they bind looks at the directory.
 */
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { whyNotWritten, whyUnwritable } from '../../../config/unwritable-file.js';
import { rightsMissing, runWithinRights } from '../../support/file-rights.js';

function folderOf(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-unwritable-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  writeFileSync(join(folder, 'plain'), 'text');
  return folder;
}

const systemError = (code: string): Error =>
  Object.assign(new Error(`${code}: words of the system`), { code });

t.test('a directory in which no file can be created is named with the cause', (t) => {
  const folder = folderOf(t);
  t.equal(whyUnwritable(join(folder, 'new')), undefined);
  t.equal(whyUnwritable(join(folder, 'plain')), undefined, 'the file may be there already');
  t.strictSame(readdirSync(folder), ['plain'], 'nothing is written');
  t.strictSame(whyUnwritable(join(folder, 'no', 'new')), {
    words: `there is no directory ${folder}/no`,
    remedy: 'create it',
  });
  t.strictSame(whyUnwritable(join(folder, 'plain', 'new')), {
    words: `${folder}/plain is not a directory, ENOTDIR`,
    remedy: 'correct the path',
  });
  t.end();
});

t.test('an error of a write names the directory and the cause', (t) => {
  const why = (code: string) => whyNotWritten('/disk/file', systemError(code));
  const mayNot = {
    words: 'the user of this process may not create files in /disk, EACCES',
    remedy: 'give this user the right to write to that directory',
  };
  const isFull = { words: 'the disk of /disk is full, ENOSPC', remedy: 'free some space on it' };
  t.strictSame(why('EACCES'), mayNot);
  t.strictSame(why('EPERM'), mayNot);
  t.strictSame(why('ENOSPC'), isFull);
  t.strictSame(why('EDQUOT'), isFull);
  t.strictSame(why('EROFS'), {
    words: 'the file system of /disk is read-only, EROFS',
    remedy: 'write the path of a file on a volume that can be written to',
  });
  t.strictSame(why('EIO'), { words: 'EIO: words of the system' }, 'nothing helps');
  t.strictSame(whyNotWritten('/disk/file', 'odd'), { words: 'odd' });
  t.strictSame(whyNotWritten('/disk/file', null), { words: 'null' });
  t.end();
});

const skip = await rightsMissing();

t.test('a directory without rights is told apart, EACCES', { skip }, async (t) => {
  const folder = folderOf(t);
  const closed = join(folder, 'closed');
  mkdirSync(closed);
  // A file cannot be created without the right to enter, nor without the right to write.
  const script = `
    import { whyUnwritable } from '${import.meta.resolve('../../../config/unwritable-file.js')}';
    console.log(JSON.stringify(whyUnwritable('${closed}/file')));`;
  for (const mode of [0o000, 0o200, 0o500]) {
    chmodSync(closed, mode);
    const { out, err } = await runWithinRights(['--input-type=module', '--eval', script], folder);
    t.equal(err, '');
    t.strictSame(
      JSON.parse(out),
      {
        words: `the user of this process may not create files in ${closed}, EACCES`,
        remedy: 'give this user the right to write to that directory',
      },
      `mode ${mode.toString(8)}`,
    );
  }
  chmodSync(closed, 0o700);
});
