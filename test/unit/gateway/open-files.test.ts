/** Goal: client connections leave files for everything else that the process opens (docs/SECURITY.md, "Quotas"). */
import t from 'tap';
import { connectionRoom } from '../../../gateway/open-files.js';

const limitsWith = (soft: string): string =>
  [
    'Limit                     Soft Limit           Hard Limit           Units     ',
    'Max processes             31387                31387                processes ',
    `Max open files            ${soft.padEnd(20)} 1048576              files     `,
  ].join('\n');

for (const [soft, room] of [
  ['1048576', 1_046_576],
  ['20000', 18_000],
  ['4000', 2_000],
  ['1024', 512],
  ['255', 127],
  ['unlimited', Infinity],
] as const) {
  t.test(`${soft} open files leave room for ${room} connections`, (t) => {
    t.equal(connectionRoom(limitsWith(soft)), room);
    t.end();
  });
}

t.test('a system without such a list bounds nothing', (t) => {
  t.equal(connectionRoom(''), Infinity);
  t.end();
});

t.test('the limit of this process leaves room', (t) => {
  t.ok(connectionRoom() > 0);
  t.end();
});
