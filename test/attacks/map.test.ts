/**
 * Goal: an authority map of 32,000 authorities does not block the serving process while it is reloaded
 * (docs/SECURITY.md, "Attacks").
 */
import t from 'tap';
import { until } from '../support/until.js';
import { noLongTurn, startArena, underAttack, type Arena } from './arena.js';

t.setTimeout(90_000);

const AUTHORITIES = 32_000;
const MISTAKES = 8_000;

/** The map of the arena with more authorities; with `isWrong`, each has a mistake. */
function largeMap({ map }: Arena, count: number, isWrong = false): unknown {
  const { authorities, ...rest } = map;
  const more = Array.from({ length: count }, (_, at): [string, unknown] => [
    `a${at}.example.com`,
    { sources: [isWrong ? `none${at}` : 'attacked'] },
  ]);
  return { ...rest, authorities: { ...(authorities as object), ...Object.fromEntries(more) } };
}

const reloads = ({ gateway }: Arena, reason: string): Promise<number> =>
  gateway.metric('tributary_map_reloads_total', { reason });

t.test('a reload of 32,000 authorities, and back, blocks no turn for over 50 ms', async (t) => {
  const arena = await startArena(t);
  const figures = await underAttack(t, arena, `${AUTHORITIES} authorities`, async () => {
    await arena.gateway.setAuthorityMap(largeMap(arena, AUTHORITIES));
    await until('it is in force', async () => (await reloads(arena, 'applied')) === 1, {
      timeoutMs: 40_000,
      everyMs: 100,
    });
    await arena.gateway.setAuthorityMap(arena.map);
    await until('the first one is back', async () => (await reloads(arena, 'applied')) === 2, {
      everyMs: 100,
    });
  });
  noLongTurn(t, figures);
});

t.test('a map with 8,000 mistakes is refused, and blocks no turn for over 50 ms', async (t) => {
  const arena = await startArena(t);
  const figures = await underAttack(t, arena, `${MISTAKES} unknown sources`, async () => {
    await arena.gateway.setAuthorityMap(largeMap(arena, MISTAKES, true));
    await until('it is refused', async () => (await reloads(arena, 'refused')) === 1, {
      timeoutMs: 60_000,
      everyMs: 100,
    });
  });
  noLongTurn(t, figures);
});
