/**
 * Telemetry of failover groups. The log line of a switch has all its circumstances: the lost source, how
 * the loss was detected, and what moved where.
 */
import type { Logger } from 'pino';
import {
  isOldStyleEntry,
  type FailoverState,
  type FailoverGroup,
  type GroupEvent,
} from '../../authorities/index.js';
import { wireText } from '../../protos/resource-name.js';
import { say } from './log.js';
import type { Metrics } from './metrics.js';
import { EVENTS } from './event-names.js';
import type { Repeats } from './repeats.js';
import type { Sinks } from './sinks.js';
import type { SourceLoss } from './sources.js';
import { Switches } from './switches.js';

type EventOf<K extends GroupEvent['kind']> = Extract<GroupEvent, { kind: K }>;

export class GroupTelemetry {
  readonly switches = new Switches();
  readonly #log: Logger;
  readonly #metrics: Metrics;
  readonly #repeats: Repeats;
  readonly #lossOf: (source: string) => SourceLoss | undefined;
  readonly #clock: () => number;
  /** By group id: the last logged state. Its cause is the reason of a switch that follows. */
  readonly #told = new Map<string, FailoverState>();
  readonly #switchedAtMs = new Map<string, number>();

  /** @param lossOf how a source, by id, was lost; undefined: it is not lost */
  constructor(
    { log, metrics, repeats, clock }: Sinks,
    lossOf: (source: string) => SourceLoss | undefined,
  ) {
    this.#log = log;
    this.#metrics = metrics;
    this.#repeats = repeats;
    this.#lossOf = lossOf;
    this.#clock = clock;
  }

  handle(group: FailoverGroup, event: GroupEvent): void {
    const { id } = group;
    const label = groupLabel(group);
    const authority = group.spec.name;
    switch (event.kind) {
      case 'state':
        this.#state(group, event);
        return;
      case 'switched':
        this.#switched(group, event);
        return;
      case 'guarded': {
        const { names } = event;
        const forMs = Math.round(event.untilMs - this.#clock());
        this.#metrics.tally('tributary_guarded_removals_total', authority, label).count += names;
        say(this.#log, 'deletions_guarded', { authority, group: id, names, forMs });
        return;
      }
      case 'refused': {
        this.#metrics.tally('tributary_refused_resources_total', authority, label).count++;
        const { reason } = event;
        const fields = { authority, group: id, name: wireText(event.name.key), reason };
        const key = `resource_refused ${event.name.key} ${event.reason}`;
        const repeated = this.#repeats.tell(key, this.#clock());
        if (repeated !== undefined) say(this.#log, 'resource_refused', { ...fields, repeated });
        return;
      }
      case 'shadowed': {
        const repeated = this.#repeats.tell(`name_shadowed ${authority}`, this.#clock());
        const fields = { authority, group: id, name: wireText(event.name.key) };
        if (repeated !== undefined) say(this.#log, 'name_shadowed', { ...fields, repeated });
        return;
      }
      default:
        // Events of single names are only for their watchers.
        return;
    }
  }

  #state(group: FailoverGroup, { from, to }: EventOf<'state'>): void {
    if (to.kind === 'idle') {
      // An idle group may belong to a node group that never returns: keep nothing.
      this.#told.delete(group.id);
      this.#switchedAtMs.delete(group.id);
    } else this.#told.set(group.id, to);
    // From its first state, so that `increase()` sees the first count.
    for (const name of COUNTED_BY_GROUP) {
      this.#metrics.tally(name, group.spec.name, groupLabel(group));
    }
    const fields = {
      authority: group.spec.name,
      group: group.id,
      from: from.kind,
      to: to.kind,
      cause: to.cause,
      active: sourceName(group, to.active),
      ...(to.target === null ? {} : { target: sourceName(group, to.target) }),
    };
    if (to.kind !== 'cached') say(this.#log, 'failover_state', fields);
    else say(this.#log, 'failover_state', fields, NO_SOURCE, EVENTS.failover_state.sometimes);
  }

  #switched(group: FailoverGroup, event: EventOf<'switched'>): void {
    const nowMs = this.#clock();
    const authority = group.spec.name;
    const { changed, kept } = event;
    const direction = event.to > event.from ? 'failover' : 'failback';
    const reason = (this.#told.get(group.id) ?? group.failover).cause;
    const from = sourceName(group, event.from);
    const to = sourceName(group, event.to);
    const before = this.#switchedAtMs.get(group.id);
    this.#switchedAtMs.set(group.id, nowMs);
    this.#metrics.tally('tributary_switches_total', authority, direction, reason).count++;
    const lostId = group.candidates[event.from]?.source.id ?? from;
    const loss = direction === 'failover' ? this.#lossOf(lostId) : undefined;
    const away = direction === 'failback' && before !== undefined ? nowMs - before : undefined;
    const fields = {
      authority,
      group: group.id,
      direction,
      reason,
      from,
      to,
      changed,
      kept,
      ...(loss ? lossFields(loss, nowMs) : {}),
      ...(away === undefined ? {} : { awayMs: Math.round(away) }),
    };
    this.switches.add({
      atMs: nowMs,
      ...{ authority, group: group.id, direction, reason, from, to, changed, kept },
      ...(loss ? { sinceLossMs: Math.round(nowMs - loss.atMs), detail: loss.end.message } : {}),
      ...(away === undefined ? {} : { awayMs: Math.round(away) }),
    });
    const how = loss ? `, ${seconds(nowMs - loss.atMs)} after the loss (${wordsOf(loss)})` : '';
    const back = away === undefined ? '' : `, after ${seconds(away)} away`;
    const message = `${group.id} moved from ${from} to ${to}: ${changed} names changed, ${kept} kept${how}${back}`;
    say(this.#log, 'authority_switched', fields, message);
  }
}

const COUNTED_BY_GROUP = [
  'tributary_guarded_removals_total',
  'tributary_refused_resources_total',
] as const;

const NO_SOURCE = 'no source of the group is in use, clients keep what they have';

/** The metric label: one per entry of old-style names, so that metrics do not grow with node groups. */
export function groupLabel({ id, spec }: FailoverGroup): string {
  return isOldStyleEntry(spec) ? spec.name : id;
}

function sourceName(group: FailoverGroup, index: number): string {
  return group.candidates[index]?.source.name ?? 'none';
}

function lossFields({ atMs, end, trip }: SourceLoss, nowMs: number): Record<string, unknown> {
  const { detectedBy, code, message } = end;
  return {
    sinceLossMs: Math.round(nowMs - atMs),
    trip,
    detectedBy,
    code,
    detail: message,
  };
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)}s`;
const wordsOf = ({ trip, end }: SourceLoss): string =>
  `${trip ?? 'not tripped'}, detected by ${end.detectedBy}`;
