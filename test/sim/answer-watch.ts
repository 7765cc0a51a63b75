/**
 * Every subscription is answered in time (invariant 19), even before the faults are healed: if all
 * sources have worked for long, a client that reads and acknowledges holds what it subscribed. Only
 * names with a single source are checked, since a group may stay with another source for its hold.
 */
import type { ClientLink } from './client-link.js';
import { isGlob, isListed, isList } from './names.js';
import { Violation } from './oracle.js';
import { mayHaveBeenDenied } from './rights.js';
import type { Scene } from './scene.js';
import { SotwClient } from './sotw-client.js';
import { mayHaveNoSet } from './sotw-waits.js';
import { nameOf } from './source-links.js';
import { WAITING_TURNS } from './world.js';

const SAMPLE_MS = 5_000;
/** Longer than the deletion guard with everything that may precede and follow it. */
const BOUND_MS = 100_000;

/** When a client subscribed each name on its stream. */
interface Asking {
  readonly process: string;
  readonly sinceMs: Map<string, number>;
}

export class AnswerWatch {
  readonly #scene: Scene;
  readonly #boundMs: number;
  readonly #asking = new Map<ClientLink, Asking>();
  /** All streams between instances and sources, as last checked. */
  #streams = '';
  #wellSinceMs = 0;
  #isOver = false;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#boundMs = BOUND_MS + WAITING_TURNS * scene.spec.turnMs;
  }

  start(): void {
    this.#scene.queue.after(SAMPLE_MS, () => {
      if (this.#isOver) return;
      this.#look();
      this.start();
    });
  }

  stop(): void {
    this.#isOver = true;
  }

  #look(): void {
    const { nowMs } = this.#scene.queue;
    const streams = this.#describe();
    if (streams !== this.#streams) this.#wellSinceMs = nowMs;
    this.#streams = streams ?? '';
    for (const link of this.#scene.clients) this.#lookAt(link, nowMs);
  }

  /** @returns the open streams as text; undefined if anything is failing. */
  #describe(): string | undefined {
    const { upstreams, instances, links, map, directories } = this.#scene;
    for (const { temper, missing } of upstreams.values()) {
      const { reachability, slowMs, flapAfterMs, mute, spoiled, noHeartbeats } = temper;
      // Without heartbeats it believes that the gateway has what has ended there (seed 306725).
      const isQuick = slowMs === 0 && flapAfterMs === undefined && !noHeartbeats;
      const isWell = reachability === 'up' && isQuick;
      if (!isWell || mute.size + spoiled.size > 0 || missing) return undefined;
    }
    if (directories.some(({ isReadable, torn }) => !isReadable || torn > 0)) return undefined;
    if (!instances.every(({ isAlive }) => isAlive) || this.#scene.oracle.map !== map)
      return undefined;
    const streams = links.all.map(({ instance, source, epoch, stream, isHalfOpen, connection }) => {
      const isWell = stream && !isHalfOpen && !connection.isStalled;
      return isWell ? `${instance.process} ${nameOf(source)} ${epoch}` : undefined;
    });
    if (streams.includes(undefined)) return undefined;
    // Streams of node groups come and go with their clients.
    return [...new Set(streams)].sort().join('\n');
  }

  #lookAt(link: ClientLink, nowMs: number): void {
    const process = link.isPrompt ? link.instance?.process : undefined;
    if (process === undefined) {
      this.#asking.delete(link);
      return;
    }
    let asking = this.#asking.get(link);
    if (asking?.process !== process || link.connectedMs > nowMs - SAMPLE_MS) {
      this.#asking.set(link, (asking = { process, sinceMs: new Map() }));
    }
    const { client } = link;
    const asked = new Set<string>();
    for (const typeUrl of client.typeUrls) {
      for (const name of client.type(typeUrl).subscribed) {
        asked.add(name);
        if (isGlob(name) || isList(name) || isListed(name)) continue;
        const sinceMs = asking.sinceMs.get(name) ?? nowMs;
        asking.sinceMs.set(name, sinceMs);
        const waitedMs = nowMs - Math.max(sinceMs, this.#wellSinceMs);
        if (waitedMs >= this.#boundMs) this.#checkAnswered(link, typeUrl, name);
      }
    }
    for (const name of asking.sinceMs.keys()) if (!asked.has(name)) asking.sinceMs.delete(name);
  }

  #checkAnswered({ client }: ClientLink, typeUrl: string, name: string): void {
    const { oracle, queue } = this.#scene;
    if (client.type(typeUrl).offered.has(name) || client.isFull(typeUrl, name)) return;
    if (client instanceof SotwClient && mayHaveNoSet(oracle, client, typeUrl)) return;
    if (mayHaveBeenDenied(oracle.history.maps, client.spec.name, name)) return;
    if (!oracle.wasThereSince(name, queue.nowMs - this.#boundMs)) return;
    throw new Violation('19', `${client.spec.name} waits too long for ${name}`);
  }
}
