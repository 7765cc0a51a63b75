/** Goal: writes beside the map do not postpone a reload (docs/SECURITY.md, "Attacks"). It is judged by wall time, so it runs alone. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { until } from '../support/until.js';
import { noLongTurn, startArena, underAttack } from './arena.js';

t.setTimeout(60_000);

t.test('writes beside the map every 8 ms do not postpone a reload by more than 2 s', async (t) => {
  const arena = await startArena(t);
  let tookMs = 0;
  const figures = await underAttack(t, arena, 'a write beside the map every 8 ms', async () => {
    const beside = join(arena.gateway.directory, 'beside');
    const busy = setInterval(() => void writeFile(beside, String(Math.random())), 8);
    try {
      const beganMs = performance.now();
      await arena.gateway.setAuthorityMap({
        ...arena.map,
        default_config_source: { sources: ['attacked'] },
      });
      await until(
        'it is in force',
        async () =>
          (await arena.gateway.metric('tributary_map_reloads_total', { reason: 'applied' })) === 1,
      );
      tookMs = performance.now() - beganMs;
    } finally {
      clearInterval(busy);
    }
  });
  t.ok(tookMs <= 2_000, `the map was in force after ${tookMs.toFixed(0)} ms`);
  noLongTurn(t, figures);
});
