/** Goal: a listing of clients comes in pages, and a long one does not hold up the event loop. */
import t from 'tap';
import { clientPage } from '../../../../gateway/admin/client-pages.js';
import type { AdminContext } from '../../../../gateway/admin/reply.js';

function contextOf(ids: readonly number[]): AdminContext {
  const clients = ids.map((id) => ({ id }));
  return { gateway: { server: { clients: () => clients } } } as unknown as AdminContext;
}

async function ask(context: AdminContext, query: string, spendMs = 0) {
  const reply = await clientPage(context, { query: new URLSearchParams(query) }, ({ id }) => {
    const untilMs = performance.now() + spendMs;
    while (performance.now() < untilMs);
    return [String(id)];
  });
  return { status: reply.status, ...(JSON.parse(reply.body) as { next?: number }) };
}

t.test('pages follow the ids of the clients, and `next` leads from one to the other', async (t) => {
  const context = contextOf([1, 4, 9, 2, 3]);
  t.strictSame(await ask(context, ''), { status: 200, count: 5, clients: [1, 2, 3, 4, 9] });
  const first = await ask(context, 'limit=3');
  t.strictSame(first, { status: 200, count: 5, clients: [1, 2, 3], next: 3 });
  t.strictSame(await ask(context, 'limit=3&after=3'), { status: 200, count: 5, clients: [4, 9] });
  t.strictSame(await ask(context, 'limit=5'), { status: 200, count: 5, clients: [1, 2, 3, 4, 9] });
});

t.test('a wrong limit or place is refused with the right form', async (t) => {
  for (const query of ['limit=0', 'limit=1001', 'limit=x', 'limit=', 'after=-1', 'after=1e3']) {
    t.match(await ask(contextOf([]), query), { status: 400, hint: /limit=1000/ }, query);
  }
});

t.test('a page of 1,000 clients lets other work pass every few rows', async (t) => {
  const context = contextOf(Array.from({ length: 10_000 }, (_, index) => index + 1));
  let turns = 0;
  const turn = setInterval(() => turns++, 1);
  t.teardown(() => {
    clearInterval(turn);
  });
  t.match(await ask(context, '', 0.2), { status: 200, count: 10_000, next: 1_000 });
  t.ok(turns >= 5, `${turns} turns of the event loop in 200 ms of work`);
});
