/** Sources whose resources have TTLs, renewed by heartbeats in time or not. */
import type { ExtraFault } from './extra-fault.js';
import { deleteName } from './publishing.js';
import { Random } from './random.js';
import type { Scene } from './scene.js';

const TTLS_MS = [20_000, 60_000, 60_000];
/** The share of a TTL after which the heartbeat is sent. */
const HEARTBEAT_SHARE = 0.4;

/** Gives some sources this habit; call it before they publish. */
export function startHeartbeats({ spec, upstreams, queue }: Scene): void {
  const dice = new Random(spec.seed, 'ttls');
  const ttlMs = dice.pick(TTLS_MS);
  for (const server of upstreams.values()) {
    // Files have no TTLs.
    if (server.onAnnounced || dice.chance(0.3)) continue;
    server.ttlFor = () => (dice.chance(0.4) ? ttlMs : undefined);
    const next = (): void => {
      queue.after(Math.round(ttlMs * HEARTBEAT_SHARE), () => {
        if (!server.temper.noHeartbeats) server.renew();
        next();
      });
    };
    next();
  }
}

export const TTL_FAULTS: Readonly<Record<string, ExtraFault>> = {
  no_heartbeats: ({ upstreams, queue }, dice) => {
    const { temper } = dice.pick([...upstreams.values()]);
    temper.noHeartbeats = true;
    queue.after(dice.between(1_000, 90_000), () => {
      temper.noHeartbeats = false;
    });
  },
  /** The source lost the resource and lets its TTL expire instead of sending a removal. */
  let_expire: (scene, dice) => {
    const server = dice.pick([...scene.upstreams.values()]);
    const withTtl = server.names.filter((name) => server.get(name)?.ttlMs !== undefined);
    for (const name of dice.some(withTtl, 0.4)) deleteName(scene, server, name);
  },
};
