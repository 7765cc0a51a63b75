/** Causes faults, one after the other; `heal` ends them all. */
import type { AuthorityMap } from '../../config/model.js';
import type { ClientLink } from './client-link.js';
import type { Fault } from './fault-kinds.js';
import type { Instance } from './instance.js';
import { publishList } from './lists.js';
import { isOldAuthority, nameText, partsOf, payload, TYPES } from './names.js';
import { deleteName, publishContent } from './publishing.js';
import { Random } from './random.js';
import type { Scene } from './scene.js';
import type { Link } from './source-links.js';
import type { Upstream } from './upstream.js';
import { encodeResource } from './upstream-wire.js';

type Act = (faults: Faults) => void;

const ACTS: Readonly<Record<Fault, Act>> = {
  cut: (faults) => {
    faults.onLinks((link) => {
      faults.scene.links.cut(link);
    });
  },
  refuse: (faults) => {
    faults.unreachable('refuse');
  },
  reject: (faults) => {
    faults.unreachable('reject');
  },
  black_hole: (faults) => {
    faults.unreachable('black_hole');
  },
  half_open: (faults) => {
    faults.onLinks((link) => {
      faults.scene.links.halfOpen(link);
    });
  },
  stall: (faults) => {
    faults.onLinks(({ connection }) => {
      connection.stall(faults.ms(500, 20_000));
    });
  },
  partition: (faults) => {
    const instance = faults.dice.pick(faults.scene.instances);
    faults.scene.links.partition(instance, faults.server().name, faults.ms(1_000, 60_000));
  },
  slow: (faults) => {
    faults.temper((server) => (server.temper.slowMs = faults.ms(100, 20_000)));
  },
  mute_names: (faults) => {
    faults.temper(({ name: source, names, temper }) => {
      for (const name of faults.dice.some(names, 0.3)) temper.mute.add(name);
      const { oracle, queue } = faults.scene;
      oracle.history.noteMute(source, queue.nowMs);
    });
  },
  spoil: (faults) => {
    faults.temper((server) => {
      // A directory has files in place of streams, and content that ends has heartbeats.
      if (server.onAnnounced) return;
      const lasting = server.names.filter((name) => server.get(name)?.ttlMs === undefined);
      const names = faults.dice.some(lasting, 0.3);
      for (const name of names) server.temper.spoiled.add(name);
      server.announce(names);
    });
  },
  forget: (faults) => {
    faults.forget();
  },
  state_of_the_world: (faults) => {
    faults.temper(({ temper }) => (temper.stateOfTheWorld = true));
  },
  hostile: (faults) => {
    faults.hostile();
  },
  malformed: (faults) => {
    for (const stream of faults.server().streams) {
      stream.sendBytes(Buffer.from([0x12, 0xff, 0x01, faults.dice.below(256)]));
    }
  },
  flap: (faults) => {
    faults.temper(({ temper }) => (temper.flapAfterMs = faults.ms(0, 3_000)));
  },
  oversize: (faults) => {
    faults.onLinks((link) => {
      const end = { code: 8, message: 'too large', detectedBy: 'oversize' } as const;
      faults.scene.links.cut(link, end);
    });
  },
  delete_many: (faults) => {
    faults.deleteMany();
  },
  nack: (faults) => {
    faults.onClient((client) => (client.refuses = 0.5));
  },
  pause: (faults) => {
    faults.onClient((client) => {
      client.pause(faults.ms(100, 40_000));
    });
  },
  leave: (faults) => {
    faults.onClient((client) => {
      faults.away(client, client.instance, true);
    });
  },
  move: (faults) => {
    faults.onClient((client) => {
      faults.away(client, faults.dice.pick(faults.scene.instances), true);
    });
  },
  forget_versions: (faults) => {
    faults.onClient((client) => {
      faults.away(client, client.instance, false);
    });
  },
  odd_requests: (faults) => {
    faults.oddRequest();
  },
  lie: (faults) => {
    faults.onClient((client) => {
      client.client.lie();
      faults.away(client, undefined, true);
    });
  },
  idle: (faults) => {
    const ms = faults.ms(1_000, 100_000);
    for (const client of faults.scene.clients) {
      client.disconnect(false);
      faults.scene.queue.after(ms, () => {
        faults.comeBack(client, undefined, true);
      });
    }
  },
  crash: (faults) => {
    const index = faults.dice.below(faults.scene.instances.length);
    faults.scene.crash(index, faults.ms(100, 20_000));
  },
  reload: (faults) => {
    faults.reload();
  },
  force: (faults) => {
    faults.force();
  },
};

export class Faults {
  readonly scene: Scene;
  readonly dice: Random;
  #healed = false;

  constructor(scene: Scene) {
    this.scene = scene;
    this.dice = new Random(scene.spec.seed, 'faults');
  }

  start(): void {
    if (this.scene.spec.faults.size > 0) this.#next();
  }

  #next(): void {
    const { queue, spec } = this.scene;
    queue.after(this.dice.between(1, 2 * spec.faultEveryMs), () => {
      if (this.#healed) return;
      const fault = this.dice.pick([...spec.faults]);
      this.scene.log(`FAULT ${fault}`);
      ACTS[fault](this);
      this.#next();
    });
  }

  /** Repairs everything; clients that are away return. */
  heal(): void {
    this.#healed = true;
    const { scene } = this;
    for (const server of scene.upstreams.values()) {
      const wasMute = this.#mend(server);
      // The server now answers the names that it withheld.
      server.announce(wasMute);
    }
    scene.links.healPartitions();
    if (scene.map !== scene.spec.map) scene.reload(scene.spec.map);
    for (const instance of scene.instances) {
      for (const { id } of instance.federation.groups) {
        instance.act(() => {
          instance.federation.release(id, instance.nowMs);
        });
      }
    }
    for (const client of scene.clients) {
      client.heal();
      if (!client.isOpen) this.comeBack(client, undefined, true);
    }
  }

  ms(least: number, most: number): number {
    return this.dice.between(least, most);
  }

  server(): Upstream {
    return this.dice.pick([...this.scene.upstreams.values()]);
  }

  onLinks(work: (link: Link) => void): void {
    for (const link of this.scene.links.of(this.server().name)) work(link);
  }

  onClient(work: (client: ClientLink) => void): void {
    work(this.dice.pick(this.scene.clients));
  }

  unreachable(how: 'refuse' | 'reject' | 'black_hole'): void {
    const server = this.server();
    server.temper.reachability = how;
    for (const link of this.scene.links.of(server.name)) {
      if (how === 'black_hole') this.scene.links.halfOpen(link);
      else this.scene.links.cut(link);
    }
    this.#mendLater(server);
  }

  temper(change: (server: Upstream) => void): void {
    const server = this.server();
    change(server);
    this.#mendLater(server);
  }

  #mendLater(server: Upstream): void {
    this.scene.queue.after(this.ms(1_000, 90_000), () => {
      if (this.#healed) return;
      this.scene.log(`${server.name} mends`);
      server.announce(this.#mend(server));
    });
  }

  /** @returns the names that it withheld, or whose content was not accepted */
  #mend(server: Upstream): readonly string[] {
    const wasMute = [...new Set([...server.temper.mute, ...server.temper.spoiled])];
    server.mend();
    const { oracle, queue } = this.scene;
    oracle.history.noteMended(server.name, queue.nowMs);
    return wasMute;
  }

  /** A restart without content, which returns after a while or never. */
  forget(): void {
    const server = this.server();
    const { scene } = this;
    const had = new Map(
      server.names.map((name) => [name, scene.oracle.history.current(server.name, name)?.list]),
    );
    for (const link of scene.links.of(server.name)) scene.links.cut(link);
    scene.oracle.history.noteLost(server.name, scene.queue.nowMs);
    for (const name of had.keys()) deleteName(this.scene, server, name);
    if (this.dice.chance(0.3)) return;
    scene.queue.after(this.ms(100, 30_000), () => {
      const back = [...had].filter(([name]) => !server.get(name));
      for (const [name, list] of back) {
        if (list) publishList(scene, server, name, list);
        else publishContent(scene, server, name);
      }
      server.announce(back.map(([name]) => name));
    });
  }

  deleteMany(): void {
    const server = this.server();
    const gone = this.dice.some(server.names, 0.7);
    for (const name of gone) deleteName(this.scene, server, name);
    server.announce(gone);
  }

  /** Names of another authority, duplicates, wrong types, unrequested names. */
  hostile(): void {
    const server = this.server();
    const typeUrl = this.dice.pick(this.scene.spec.types);
    const { map, spec, oracle } = this.scene;
    const foreign = [...map.authorities.values()].filter(
      ({ sources }) => !sources.includes(server.name),
    );
    const authority = foreign.length > 0 ? this.dice.pick(foreign).name : 'nobody';
    const name = nameText(authority, typeUrl, this.dice.pick(spec.ids));
    const own = server.names.filter((one) => partsOf(one).typeUrl === typeUrl);
    // No source published it: a client that gets it has forged content.
    const forged = (of: string): Buffer =>
      encodeResource(typeUrl, of, {
        version: 'forged',
        body: payload(typeUrl, of, '', 900_000_000 + oracle.history.newMark()),
        isRedirect: false,
      });
    for (const stream of server.streams) {
      switch (this.dice.below(5)) {
        case 0:
          stream.sendResponse(typeUrl, [forged(name)], []);
          break;
        case 1:
          stream.sendResponse(typeUrl, [], [name]);
          break;
        case 2:
          for (const one of own.slice(0, 1)) {
            stream.sendResponse(typeUrl, [forged(one), forged(one)], []);
          }
          break;
        case 3: {
          const other = TYPES.find((type) => type !== typeUrl)!;
          // Not for old-style names: nothing in such a name shows the other type, so its collection
          // would lack a member until the server takes it back (docs/SPEC.md), and this server
          // never does.
          const typed = own.filter((one) => !isOldAuthority(partsOf(one).authority));
          for (const one of typed.slice(0, 1)) stream.sendResponse(other, [forged(one)], []);
          break;
        }
        default:
          stream.sendResponse(typeUrl, map.oldStyle ? [] : [forged('no name at all')], [
            'neither is this',
          ]);
      }
    }
  }

  // ---- clients ------------------------------------------------------------------------------

  away(client: ClientLink, to: Instance | undefined, withVersions: boolean): void {
    client.disconnect(false);
    this.scene.queue.after(this.ms(1, 60_000), () => {
      this.comeBack(client, to, withVersions);
    });
  }

  comeBack(client: ClientLink, to: Instance | undefined, withVersions: boolean): void {
    const { instances } = this.scene;
    const there = instances.find(({ name }) => name === to?.name);
    client.connect(there ?? this.dice.pick(instances), withVersions);
  }

  oddRequest(): void {
    const { spec, clients } = this.scene;
    const link = this.dice.pick(clients);
    const typeUrl = this.dice.pick(spec.types);
    const { subscribed } = link.client.type(typeUrl);
    const again = this.dice.some([...subscribed], 0.5);
    // Subscribe again: the server must resend it.
    if (again.length > 0 && this.dice.chance(0.6)) link.change(typeUrl, again, []);
    else if (link.client.hasAsked(typeUrl))
      link.send(link.client.oddRequest(typeUrl, this.dice.below(3)));
  }

  // ---- the operator -------------------------------------------------------------------------

  force(): void {
    const { instances } = this.scene;
    const instance = this.dice.pick(instances);
    const groups = instance.federation.groups;
    if (groups.length === 0 || !instance.isAlive) return;
    const { id, spec, candidates } = this.dice.pick(groups);
    const forMs = this.dice.chance(0.2) ? Infinity : this.ms(1_000, 60_000);
    const target = this.dice.below(candidates.length);
    this.scene.log(`${instance.name} forces ${id} to ${target}`);
    instance.act(() => {
      const { federation, nowMs } = instance;
      const untilMs = nowMs + forMs;
      federation.force(id, target, nowMs, untilMs);
      const source = candidates[target]?.source.name;
      // Groups that begin later follow, too. An order without an end would last beyond the calm.
      if (source !== undefined && forMs < Infinity)
        federation.forceOrders.give(spec.name, { source, untilMs });
    });
  }

  /** Another map for a while: one authority less, other sources, other alternatives. */
  reload(): void {
    const { scene, dice } = this;
    const { sources, authorities, oldStyle } = scene.spec.map;
    if (scene.map !== scene.spec.map) {
      scene.reload(scene.spec.map);
      return;
    }
    const changed = new Map(authorities);
    const spec = dice.pick([...authorities.values()]);
    const how = dice.below(4);
    if (how === 0 && authorities.size > 1) changed.delete(spec.name);
    else if (how === 1) changed.set(spec.name, { ...spec, sources: [...spec.sources].reverse() });
    else if (how === 2) changed.set(spec.name, { ...spec, alternatives: [], mayLeadTo: [] });
    else changed.set(spec.name, { ...spec, failover: { ...spec.failover, prewarm: 'subscribed' } });
    const map: AuthorityMap = { sources, authorities: changed, ...(oldStyle ? { oldStyle } : {}) };
    scene.reload(withoutMissing(map));
  }
}

/** The reader of maps guarantees that referenced sources and authorities exist. */
function withoutMissing({ sources, authorities, oldStyle }: AuthorityMap): AuthorityMap {
  const kept = [...authorities.values()].map((spec) => ({
    ...spec,
    alternatives: spec.alternatives.filter(({ authority }) => authorities.has(authority)),
    mayLeadTo: (spec.mayLeadTo ?? []).filter((authority) => authorities.has(authority)),
  }));
  const used = new Set([...kept, ...(oldStyle?.servedBy ?? [])].flatMap((spec) => spec.sources));
  return {
    sources: new Map([...sources].filter(([name]) => used.has(name))),
    authorities: new Map(kept.map((spec) => [spec.name, spec])),
    ...(oldStyle ? { oldStyle } : {}),
  };
}
