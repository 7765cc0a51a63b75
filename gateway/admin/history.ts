/** `/authorities/<authority>/history`: the last switches of an authority. */
import type { Switch } from '../telemetry/switches.js';
import { wallTime } from '../clock.js';
import { decodedAuthority, unknownAuthority } from './known-authority.js';
import { json, type AdminContext, type AdminRequest, type Reply } from './reply.js';

export const HISTORY_PATH = /^\/authorities\/([^/]*)\/history$/;

/** One row; the newest comes first. */
export interface SwitchRow extends Omit<Switch, 'atMs'> {
  readonly at: string;
  /** How long the group then stayed at `to`. Absent: it still does. */
  readonly lastedMs?: number;
}

export function history(context: AdminContext, { path }: AdminRequest): Reply {
  const authority = decodedAuthority(HISTORY_PATH.exec(path)?.[1] ?? '');
  const unknown = unknownAuthority(context, authority);
  if (unknown) return unknown;
  return json(200, { authority, switches: rowsOf(context.telemetry.switches.of(authority)) });
}

/** @param switches oldest first. @returns newest first */
function rowsOf(switches: readonly Switch[]): readonly SwitchRow[] {
  /** By group: when its next switch was. */
  const nextMs = new Map<string, number>();
  return switches.toReversed().map(({ atMs, ...one }) => {
    const untilMs = nextMs.get(one.group);
    nextMs.set(one.group, atMs);
    const lasted = untilMs === undefined ? {} : { lastedMs: Math.round(untilMs - atMs) };
    return { at: wallTime(atMs), ...one, ...lasted };
  });
}
