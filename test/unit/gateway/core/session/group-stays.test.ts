/**
 * Goal: a node group is deserted once its clients are in other groups, and not while any of them is in it.
 */
import t from 'tap';
import { GroupStays } from '../../../../../gateway/core/session/group-stays.js';

function start() {
  const deserted: string[] = [];
  const group = new GroupStays((scope) => deserted.push(scope));
  const refused: string[] = [];
  const stays = {
    enter: (client: string | undefined, scope: string) =>
      group.enter(client, scope, {
        handleCredentialsRefused: () => refused.push(`${client} ${scope}`),
      }),
  };
  return { group, refused, stays, taken: () => deserted.splice(0) };
}

t.test('a client that returns in another group deserts the one before', (t) => {
  const { stays, taken } = start();
  stays.enter('web', 'token-1')();
  t.strictSame(taken(), [], 'it may come back');
  const leave = stays.enter('web', 'token-2');
  t.strictSame(taken(), ['token-1']);
  leave();
  stays.enter('web', 'token-2');
  t.strictSame(taken(), []);
  t.end();
});

t.test('a group with a stream of any client is not deserted', (t) => {
  const { stays, taken } = start();
  const leaves = [stays.enter('web', 'a'), stays.enter('web', 'a'), stays.enter('other', 'a')];
  stays.enter('web', 'b');
  for (const leave of leaves.slice(0, 2)) leave();
  t.strictSame(taken(), [], 'the other client is in it');
  leaves[2]!();
  t.strictSame(taken(), [], 'and may come back');
  t.end();
});

t.test('a group is deserted when its last stream ends after its client entered another', (t) => {
  const { stays, taken } = start();
  const leave = stays.enter('web', 'a');
  stays.enter('web', 'b');
  t.strictSame(taken(), []);
  leave();
  t.strictSame(taken(), ['a']);
  t.end();
});

t.test(
  'a group stays for a client that lost its connection, though another one left for good',
  (t) => {
    const { stays, taken } = start();
    stays.enter('lost', 'a')();
    stays.enter('moves', 'a')();
    const leave = stays.enter('moves', 'b');
    t.strictSame(taken(), [], 'the lost one may come back');
    stays.enter('lost', 'c');
    t.strictSame(taken(), ['a']);
    leave();
    t.strictSame(taken(), []);
    t.end();
  },
);

t.test('a client that cannot be told from others deserts nothing', (t) => {
  const { stays, taken } = start();
  stays.enter(undefined, 'a')();
  stays.enter(undefined, 'b')();
  t.strictSame(taken(), []);
  t.end();
});

t.test('the last 10,000 clients are remembered', (t) => {
  const { stays, taken } = start();
  for (let at = 0; at <= 10_000; at++) stays.enter(`client-${at}`, `before-${at}`)();
  stays.enter('client-0', 'after');
  t.strictSame(taken(), [], 'the oldest is forgotten');
  stays.enter('client-10000', 'after');
  t.strictSame(taken(), ['before-10000']);
  t.end();
});

t.test(
  'the open streams of a group, and no others, learn that its credentials are refused',
  (t) => {
    const { group, refused, stays } = start();
    stays.enter('gone', 'a')();
    stays.enter('web', 'a');
    stays.enter(undefined, 'a');
    stays.enter('web', 'b');
    group.handleCredentialsRefused('a');
    t.strictSame(refused, ['web a', 'undefined a']);
    group.handleCredentialsRefused('unknown');
    t.equal(refused.length, 2);
    t.end();
  },
);
