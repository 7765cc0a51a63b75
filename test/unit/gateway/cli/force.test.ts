/**
 * Goal: an order that moves thousands of node groups does not fill the terminal, and scripts get all of them.
 * Method: the command line in this process, against a server with the response of the admin API.
 */
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { ADMIN_MARK } from '../../../../gateway/admin/reply.js';
import { runHere } from '../../../support/program.js';

interface Moved {
  readonly forced: string;
  readonly groups: readonly { readonly group: string }[];
}

/** @param count of the groups that each order moves */
async function adminOf(t: Test, count: number): Promise<readonly string[]> {
  const groups = Array.from({ length: count }, (_, index) => ({ group: `a {"id":"${index}"}` }));
  const server = createServer((_request, response) => {
    response.setHeader(ADMIN_MARK.header, ADMIN_MARK.value);
    response.end(JSON.stringify({ forced: 'two', groups }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return ['--admin', `127.0.0.1:${(server.address() as AddressInfo).port}`];
}

t.test('force and release print 20 groups and the number of the others (OPERATIONS)', async (t) => {
  const admin = await adminOf(t, 5_000);
  for (const order of [
    ['force', 'a', 'two'],
    ['release', 'a'],
  ]) {
    const { code, stdout } = await runHere([...order, ...admin]);
    t.equal(code, 0);
    const shown = parse(stdout) as Moved;
    t.equal(shown.forced, 'two');
    t.equal(shown.groups.length, 20);
    t.match(stdout, /\n# and 4980 more; -o json prints all\n$/);
    for (const form of ['json', 'yaml']) {
      const all = parse((await runHere([...order, ...admin, '-o', form])).stdout) as Moved;
      t.equal(all.groups.length, 5_000, form);
    }
  }
});

t.test('force with few groups prints all of them, and nothing more', async (t) => {
  const { stdout } = await runHere(['force', 'a', 'two', ...(await adminOf(t, 20))]);
  t.equal((parse(stdout) as Moved).groups.length, 20);
  t.notMatch(stdout, '#');
});
