/** What a gateway's process holds, asked of the process itself (probe.ts) and of Linux. */
import { readdirSync, readFileSync } from 'node:fs';
import type { Gateway } from '../interop/peers/gateway.js';

/** For `GatewayOptions.preload`. */
export const PROBE = new URL('./probe.js', import.meta.url).href;

/**
 * For `GatewayOptions.nodeArgs`, where resident memory is compared. V8 lets garbage pile up as far as its limit allows. By
 * default that is GiB, and the growth differed by 60 MiB from run to run; with this limit by 7 MiB. A smaller one makes the
 * gateway's own guard of memory refuse streams.
 */
export const LITTLE_GARBAGE = ['--max-old-space-size=128'];

export interface ProbeAnswer {
  /** After a full collection of garbage. */
  readonly heapUsedBytes: number;
  /** Outside the heap, of objects in it: buffers. */
  readonly externalBytes: number;
  readonly rssBytes: number;
  readonly timers: number;
  /** The same by the line of code that started them. */
  readonly timersByPlace: Readonly<Record<string, number>>;
  /** `process.getActiveResourcesInfo`, counted. */
  readonly resources: Readonly<Record<string, number>>;
  /** Of the process object. */
  readonly listeners: number;
  readonly warnings: readonly string[];
}

export interface Held extends ProbeAnswer {
  readonly openFiles: number;
  /** Watches of files and directories (inotify). */
  readonly fileWatches: number;
}

export async function askHeld(gateway: Gateway): Promise<Held> {
  const answer = (await gateway.ask('held')) as ProbeAnswer;
  return { ...answer, ...filesOf(gateway.pid!) };
}

function filesOf(pid: number): Pick<Held, 'openFiles' | 'fileWatches'> {
  const folder = `/proc/${pid}/fdinfo`;
  const infos = readdirSync(folder).flatMap((file) => {
    try {
      return [readFileSync(`${folder}/${file}`, 'utf8')];
    } catch {
      return []; // Closed meanwhile.
    }
  });
  const watches = infos.map((info) => info.match(/^inotify wd:/gm)?.length ?? 0);
  return {
    openFiles: infos.length,
    fileWatches: watches.reduce((sum, count) => sum + count, 0),
  };
}
