/**
 * What every attack needs: the gateway as its own process, a real source under the test's control, an
 * innocent client with a source of its own, and the figures before and during the attack.
 */
import type { Test } from 'tap';
import { Gateway } from '../interop/peers/gateway.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { pause } from '../support/until.js';
import { INNOCENT, Innocent } from './innocent.js';
import type { TurnFigures } from './turn-probe.js';

/** The authority of {@link Arena.source}. */
export const ATTACKED = 'attacked.example.com';
/** No input may keep the event loop for longer. */
const MAX_TURN_CPU_MS = 50;
export const MIB = 1_024 * 1_024;

const PROBE = new URL('./turn-probe.js', import.meta.url).href;
/** The innocent client before the attack. */
const CALM_MS = 300;
/** Changes after the start are slower, since V8 has not compiled the path yet. */
const WARM_UP_MS = 1_000;

export interface ServerTls {
  /** Paths of PEM files. */
  readonly cert: string;
  readonly key: string;
  /** PEM of the CA that clients trust. */
  readonly ca: string;
}

export interface ArenaOptions {
  /** Of the gateway's JavaScript heap; default: that of Node. */
  readonly heapLimitMiB?: number;
  /** The most files that the gateway may open. Default: as many as the test. */
  readonly openFiles?: number;
  /** The gateway's port for clients has TLS with this certificate. Default: plaintext. */
  readonly tls?: ServerTls;
  /** More flags of the gateway. */
  readonly args?: readonly string[];
  /** Added to the map, or in place of a part of it. */
  readonly sources?: Readonly<Record<string, unknown>>;
  readonly authorities?: Readonly<Record<string, unknown>>;
  readonly map?: Readonly<Record<string, unknown>>;
}

export interface Arena {
  readonly gateway: Gateway;
  /** The source of the authority {@link ATTACKED}, `attacked` in the map. */
  readonly source: ScriptedUpstream;
  readonly innocent: Innocent;
  /** The map as the gateway has it, to be changed and given to `gateway.setAuthorityMap`. */
  readonly map: Readonly<Record<string, unknown>>;
}

/** The teardown of the test stops all of it. */
export async function startArena(t: Test, options: ArenaOptions = {}): Promise<Arena> {
  const source = await ScriptedUpstream.start();
  t.teardown(() => source.stop());
  const innocent = await Innocent.start();
  t.teardown(() => innocent.stop());
  const timers = { backoff_base: '50ms', backoff_max: '200ms' };
  const at = (port: number) => ({ target: `127.0.0.1:${port}`, insecure: true, timers });
  const map = {
    sources: { attacked: at(source.port), innocent: at(innocent.port), ...options.sources },
    authorities: {
      [ATTACKED]: { sources: ['attacked'] },
      [INNOCENT]: { sources: ['innocent'] },
      ...options.authorities,
    },
    ...options.map,
  };
  const { heapLimitMiB, openFiles, tls, args = [] } = options;
  const tlsArgs = tls ? ['--client-tls-cert', tls.cert, '--client-tls-key', tls.key] : [];
  const gateway = await Gateway.start({
    authorityMap: map,
    args: [...tlsArgs, ...args],
    nodeArgs: heapLimitMiB === undefined ? [] : [`--max-old-space-size=${heapLimitMiB}`],
    ...(openFiles !== undefined && { openFiles }),
    preload: PROBE,
  });
  t.teardown(() => gateway.stop());
  await innocent.subscribe(gateway.port, tls?.ca);
  await pause(WARM_UP_MS);
  return { gateway, source, innocent, map };
}

export interface AttackFigures {
  /** Of the innocent client: from a change at its source until it has the change. */
  readonly calmP99Ms: number;
  readonly attackedP99Ms: number;
  /** The number of changes that the innocent client got during the attack. */
  readonly changes: number;
  /** CPU time of the gateway's main thread in its longest turn during the attack. */
  readonly longestTurnCpuMs: number;
  /** Resident memory before the attack, and its peak during the attack. */
  readonly calmRssMiB: number;
  readonly peakRssMiB: number;
  readonly peakHeapMiB: number;
}

/**
 * Measures without the attack, then during it, and prints one line with the figures. It also shows that
 * the process lives, that the innocent client's stream is open, and that no handler threw.
 *
 * @param size what the attack consists of, such as `100 streams × 10,000 names`
 */
export async function underAttack(
  t: Test,
  { gateway, innocent }: Arena,
  size: string,
  attack: () => Promise<unknown>,
): Promise<AttackFigures> {
  const takeTurns = async (): Promise<TurnFigures> => (await gateway.ask('reset')) as TurnFigures;
  await takeTurns();
  await innocent.takeFigures();
  await pause(CALM_MS);
  const calm = { ...(await innocent.takeFigures()), ...(await takeTurns()) };
  await attack();
  const attacked = { ...(await takeTurns()), ...(await innocent.takeFigures()) };
  const figures: AttackFigures = {
    calmP99Ms: p99(calm.latenciesMs),
    attackedP99Ms: p99(attacked.latenciesMs),
    changes: attacked.latenciesMs.length,
    longestTurnCpuMs: attacked.longestTurnCpuMs,
    calmRssMiB: calm.rssBytes / MIB,
    peakRssMiB: attacked.rssBytes / MIB,
    peakHeapMiB: attacked.heapUsedBytes / MIB,
  };
  t.comment(`attack: ${size}: ${inWords(figures)}`);
  t.equal(gateway.exited, undefined, 'the process lives');
  t.equal(attacked.ended, undefined, "the innocent client's stream is open");
  t.equal(await gateway.metric('tributary_handler_errors_total'), 0, 'no handler threw');
  return figures;
}

/** The bar of every attack on the event loop. */
export function noLongTurn(t: Test, { longestTurnCpuMs }: AttackFigures): void {
  const shown = longestTurnCpuMs.toFixed(0);
  t.ok(
    longestTurnCpuMs <= MAX_TURN_CPU_MS,
    `the longest turn took ${shown} ms of CPU, at most ${MAX_TURN_CPU_MS} are allowed`,
  );
}

/** The bar of an attack on memory. */
export function isAtMost(
  t: Test,
  { peakRssMiB, calmRssMiB }: AttackFigures,
  mostMiB: number,
): void {
  const costMiB = peakRssMiB - calmRssMiB;
  t.ok(
    costMiB <= mostMiB,
    `they cost ${costMiB.toFixed(0)} MiB in all, at most ${mostMiB} are allowed`,
  );
}

function p99(latenciesMs: readonly number[]): number {
  const sorted = [...latenciesMs].sort((a, b) => a - b);
  return sorted[Math.ceil(sorted.length * 0.99) - 1] ?? Number.NaN;
}

const inWords = (figures: AttackFigures): string =>
  [
    `innocent p99 ${figures.calmP99Ms.toFixed(1)} → ${figures.attackedP99Ms.toFixed(1)} ms (${figures.changes} changes)`,
    `longest turn ${figures.longestTurnCpuMs.toFixed(0)} ms CPU`,
    `RSS ${figures.calmRssMiB.toFixed(0)} → ${figures.peakRssMiB.toFixed(0)} MiB`,
    `heap up to ${figures.peakHeapMiB.toFixed(0)} MiB`,
  ].join(', ');
