/**
 * Goal: clients that leave their sockets unread cost the gateway bounded memory, and miss nothing.
 * Method: `npm run memory` at its full size.
 */
import t from 'tap';
import { pauseClients } from '../soak/paused-clients.js';
import { leaveUnread } from '../soak/unread-clients.js';

const MAX_GROWTH_MIB = 64;
const MAX_UNREAD_MIB = 32;

t.setTimeout(120_000);

t.test(
  '100 clients leave their sockets unread through 10,000 updates: at most 32 MiB more than while they read, all exact after',
  async (t) => {
    const figures = await pauseClients({ clients: 100, updates: 10_000 });
    t.ok(figures.peakMiB - figures.beforeMiB <= MAX_UNREAD_MIB, 'resident memory');
    t.ok(figures.aliveAfterMiB - figures.aliveBeforeMiB <= MAX_UNREAD_MIB, 'live memory');
    t.ok(figures.paused > 0, 'some clients ACKed responses without reading on, and were paused');
    t.equal(figures.wrong, 0, 'every client that resumed reading holds the latest content');
    t.comment(JSON.stringify(figures));
  },
);

t.test(
  '1,000 clients that never read a collection of 4 MiB cost at most 64 MiB in all',
  async (t) => {
    const { before, after } = await leaveUnread(1_000);
    t.ok(after.residentMiB - before.residentMiB <= MAX_GROWTH_MIB, 'resident memory');
    t.ok(after.aliveMiB - before.aliveMiB <= MAX_GROWTH_MIB, 'live memory');
    t.comment(JSON.stringify({ before, after }));
  },
);
