/** Checks that a source trips for the reasons in docs/FAILOVER.md only (gRFC A57). */
import type { ServerEffect } from '../../authorities/core/sources/management-server.js';
import type { TripReason } from '../../authorities/core/sources/source-health.js';
import type { SourceTimers } from '../../config/model.js';
import { Violation } from './oracle.js';

interface Past {
  upMs: number | undefined;
  /** Attempts in a row without a first response. */
  failures: number;
  /** Ends of streams that had a response but were short. */
  shortEndsMs: number[];
  /** The probe ended the last stream that had a response, or an attempt since. */
  wasLostByProbe: boolean;
}

const REFUSALS: readonly number[] = [7, 12, 16];
/** They say nothing about the health of a source. */
const EXCUSED: readonly string[] = ['oversize', 'gateway', 'type'];

export class TripWatch {
  readonly #timers: SourceTimers;
  readonly #pasts = new Map<string, Past>();

  constructor(timers: SourceTimers) {
    this.#timers = timers;
  }

  /** A new process or map has new sources. */
  forget(instance: string): void {
    for (const key of [...this.#pasts.keys()]) {
      if (key.startsWith(`${instance} `)) this.#pasts.delete(key);
    }
  }

  onEffect(key: string, effect: ServerEffect, nowMs: number): void {
    let past = this.#pasts.get(key);
    if (!past) {
      past = { upMs: undefined, failures: 0, shortEndsMs: [], wasLostByProbe: false };
      this.#pasts.set(key, past);
    }
    if (effect.kind === 'dial') past.upMs = undefined;
    else if (effect.kind === 'up') past.upMs = nowMs;
    else if (effect.kind === 'lost') this.#noteLost(past, effect.end.detectedBy, nowMs);
    else if (effect.kind === 'tripped')
      this.#check(key, past, effect.reason, effect.end.code, nowMs);
  }

  #noteLost(past: Past, detectedBy: string, nowMs: number): void {
    const { upMs } = past;
    past.upMs = undefined;
    if (EXCUSED.includes(detectedBy)) return;
    if (upMs === undefined) {
      past.failures++;
      past.wasLostByProbe ||= detectedBy === 'probe';
      return;
    }
    past.wasLostByProbe = detectedBy === 'probe';
    if (nowMs - upMs >= this.#timers.minStableMs) past.failures = 0;
    else past.shortEndsMs.push(nowMs);
  }

  #check(key: string, past: Past, reason: TripReason, code: number, nowMs: number): void {
    const { failedAttemptLimit, shortStreamLimit, shortStreamWindowMs } = this.#timers;
    const recent = past.shortEndsMs.filter((atMs) => atMs > nowMs - shortStreamWindowMs);
    const isRight = {
      unreachable: past.failures >= failedAttemptLimit || past.wasLostByProbe,
      unstable: recent.length >= shortStreamLimit,
      silent: code === 4,
      refused: REFUSALS.includes(code),
    }[reason];
    if (!isRight) throw new Violation('trip', `${key} trips as ${reason} without a reason`);
  }
}
