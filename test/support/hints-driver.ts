/** The core of the hints alone: the test sets the held content and the clock. */
import {
  PeerHints,
  type HintEffect,
  type PeerHintsOptions,
} from '../../gateway/core/peers/peer-hints.js';
import {
  encodePeerMessage,
  readPeerMessage,
  type PeerMessage,
} from '../../gateway/core/peers/peer-message.js';
import type { HeldChange, HeldState } from '../../gateway/core/cache/resource-cache.js';
import type { ResourceName } from '../../protos/resource-name.js';
import { CDS } from './mesh-names.js';

export const GRACE_MS = 1_000;

/** An instance: its held content, and the effects of its core. */
export class HintsDriver {
  readonly held = new Map<string, HeldState>();
  readonly did: HintEffect[] = [];
  readonly hints: PeerHints;
  nowMs = 1_000_000;

  constructor(
    readonly id = 'me',
    options: Partial<PeerHintsOptions> = {},
  ) {
    this.hints = new PeerHints({
      instance: id,
      graceMs: GRACE_MS,
      held: (typeUrl, { key }) => this.held.get(`${typeUrl} ${key}`),
      random: () => 0.5,
      ...options,
    });
    this.hints.handleConnected(this.nowMs);
    this.hints.handleTimer(this.nowMs);
  }

  /** Holds this from now on, without notifying the core. */
  holds(name: ResourceName, state: Partial<HeldState>, typeUrl: string = CDS): this {
    const kind = state.version === undefined ? 'waiting' : 'present';
    const common = { kind, version: undefined, asked: name, inCollection: false } as const;
    this.held.set(`${typeUrl} ${name.key}`, { ...common, ...state });
    return this;
  }

  /** The instance's own source sends a change. */
  sees(name: ResourceName, after: string | undefined, change: Partial<HeldChange> = {}): this {
    const typeUrl = change.typeUrl ?? CDS;
    const before = this.held.get(`${typeUrl} ${name.key}`)?.version;
    this.holds(name, after === undefined ? { kind: 'absent' } : { version: after }, typeUrl);
    this.hints.handleHeld({ typeUrl, name, before, after, cause: 'said', ...change }, this.nowMs);
    return this;
  }

  hears(message: PeerMessage, from = 'other'): this {
    return this.hearsBytes(encodePeerMessage(from, message));
  }

  hearsBytes(bytes: Uint8Array): this {
    this.hints.handleMessage(bytes, this.nowMs);
    return this;
  }

  /** Stops at every deadline on the way. */
  after(ms: number): this {
    const untilMs = this.nowMs + ms;
    for (let steps = 0; ; steps++) {
      if (steps > 100_000) throw new Error('time does not pass: a deadline is always due');
      const dueMs = this.hints.nextDeadlineMs();
      if (dueMs === undefined || dueMs > untilMs) break;
      this.nowMs = Math.max(this.nowMs, dueMs);
      this.hints.handleTimer(this.nowMs);
    }
    this.nowMs = untilMs;
    return this;
  }

  take(): readonly HintEffect[] {
    this.did.push(...this.hints.takeEffects());
    return this.did.splice(0);
  }

  /** The effects since the last call, as words; messages by their content. */
  words(): readonly string[] {
    return this.take().map((effect) => {
      switch (effect.kind) {
        case 'publish':
          return `tell ${told(effect.bytes)}`;
        case 'revalidate':
          return `revalidate ${effect.name.key} for ${effect.cause}`;
        case 'revalidate_authority':
          return `revalidate all of ${effect.authority}`;
        case 'nudge_sources_of':
          return `nudge sources of ${effect.name.key}`;
        case 'nudge_group':
          return `nudge ${effect.group}`;
        case 'ignored':
          return `ignored: ${effect.reason}`;
        case 'not_told':
          return `not told: ${effect.names}`;
      }
    });
  }

  messages(): readonly PeerMessage[] {
    return this.take().flatMap((effect) => {
      const read = effect.kind === 'publish' ? readPeerMessage(effect.bytes) : undefined;
      return read?.ok === true ? [read.message] : [];
    });
  }
}

function told(bytes: Uint8Array): string {
  const read = readPeerMessage(bytes);
  if (!read.ok) return read.reason;
  const { message } = read;
  switch (message.kind) {
    case 'changes':
      return message.hints.map(({ name, version }) => `${name.id}=${String(version)}`).join(' ');
    case 'digest':
      return `digest${message.isQuestion ? '?' : ''} of ${message.rows.length}`;
    default:
      return message.kind;
  }
}

export const hintOf = (
  name: ResourceName,
  version: string | null,
  typeUrl: string = CDS,
): PeerMessage => ({
  kind: 'changes',
  hints: [{ typeUrl, name, version }],
});
