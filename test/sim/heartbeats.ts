/** Sources that say how long their resources are good, and say it again in time, or do not. */
import type { ExtraFault } from './extra-fault.js';
import { deleteName } from './publishing.js';
import { Random } from './random.js';
import type { Scene } from './scene.js';

const TTLS_MS = [20_000, 60_000, 60_000];
/** Of the time that is left, when they are said to be good on. */
const HEARTBEAT_SHARE = 0.4;

/** Gives some sources the habit; to be called before they publish. */
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
  /** It is gone at the source, which does not say so: it lets it run out. */
  let_expire: (scene, dice) => {
    const server = dice.pick([...scene.upstreams.values()]);
    const withTtl = server.names.filter((name) => server.get(name)?.ttlMs !== undefined);
    for (const name of dice.some(withTtl, 0.4)) deleteName(scene, server, name);
  },
};
