/** Goal: a token file that becomes wrong keeps the last token, and the log says why (docs/OPERATIONS.md, "Admin access"). */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { AdminToken } from '../../../../gateway/admin/admin-token.js';

t.test(
  'a token file that cannot be used is said once per reason, and the last token stays',
  (t) => {
    const file = join(t.testdir({ token: 'one\n' }), 'token');
    const said: string[] = [];
    let nowMs = 0;
    const token = new AdminToken(
      file,
      () => nowMs,
      (reason) => said.push(reason),
    );
    const isOne = (): boolean => {
      nowMs += 1_000;
      return token.allows('Bearer one');
    };
    rmSync(file);
    t.ok(isOne());
    t.ok(isOne());
    t.strictSame(said, [`admin.token_file ${file} cannot be read: there is no such file`]);
    mkdirSync(file);
    t.ok(isOne());
    t.match(said[1], /is a directory, not a regular file \(write the path of a file\)/);
    rmSync(file, { recursive: true });
    writeFileSync(file, 'two words');
    t.ok(isOne());
    t.match(said[2], /must have one token without white space/);
    writeFileSync(file, 'two');
    t.notOk(isOne());
    t.ok(token.allows('bearer two'));
    rmSync(file);
    t.notOk(isOne());
    t.equal(said.length, 4, 'the reason is new again');
    t.end();
  },
);

t.test('there is no start without a token', (t) => {
  t.throws(() => new AdminToken('/no/token', () => 0, t.fail.bind(t)), {
    message: 'admin.token_file /no/token cannot be read: there is no such file',
  });
  t.end();
});
