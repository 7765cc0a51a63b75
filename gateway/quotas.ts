/** The bounds of the clients and sources of one gateway, made from its settings. */
import type { Limits } from '../config/limits.js';
import { ContentTotal, type FederatedClient } from '../authorities/index.js';
import type { RpcStatus } from '../protos/discovery.js';
import { MemoryWatch } from './clients/memory-watch.js';
import type { ResourceCache } from './core/cache/resource-cache.js';
import { quotaLimitsOf } from './core/quotas/limits.js';
import { Quotas, type PeerAccount } from './core/quotas/quotas.js';
import type { NodeGroupRoom } from './core/session/client-scope.js';
import { connectionRoom } from './open-files.js';
import type { Telemetry } from './telemetry/telemetry.js';

export interface GatewayQuotas {
  readonly quotas: Quotas;
  readonly memoryWatch: MemoryWatch;
  readonly contentTotal: ContentTotal;
}

export function createQuotas(limits: Limits, telemetry: Telemetry): GatewayQuotas {
  const quotas = new Quotas(quotaLimitsOf(limits, connectionRoom()), (refusal) => {
    telemetry.onQuota(refusal);
  });
  const memoryWatch = new MemoryWatch({
    share: limits.maxHeapPercent / 100,
    onLevel: (level, fullness) => {
      quotas.setShort(level !== 'enough');
      telemetry.onMemoryLevel(level, fullness);
    },
  });
  const isCritical = (): boolean => memoryWatch.level === 'critical';
  return {
    quotas,
    memoryWatch,
    contentTotal: new ContentTotal(limits.maxContentBytes, isCritical),
  };
}

/** A node group is in use while the cache has names of it, or a client or a source needs its identity. */
export function roomIn(
  cache: ResourceCache,
  upstream: FederatedClient,
  { maxNodeGroups }: Limits,
): NodeGroupRoom {
  const { identities } = upstream.view.nodeGroups;
  return {
    maxNodeGroups,
    get scopeCount() {
      return Math.max(cache.scopeCount, identities.size);
    },
    hasScope: (scope) => cache.hasScope(scope) || identities.has(scope),
  };
}

/** The node groups that clients of this peer may enter. */
export const withQuota = (room: NodeGroupRoom, account: PeerAccount): NodeGroupRoom =>
  new PeerRoom(room, account);

/** A class, since each stream has one. */
class PeerRoom implements NodeGroupRoom {
  readonly #room: NodeGroupRoom;
  readonly #account: PeerAccount;

  constructor(room: NodeGroupRoom, account: PeerAccount) {
    this.#room = room;
    this.#account = account;
  }

  get maxNodeGroups(): number {
    return this.#room.maxNodeGroups;
  }

  get scopeCount(): number {
    return this.#room.scopeCount;
  }

  hasScope(scope: string): boolean {
    return this.#room.hasScope(scope);
  }

  enter(scope: string): RpcStatus | undefined {
    return this.#account.enterGroup(scope, (one) => this.#room.hasScope(one));
  }
}

/** Streams that opened together do not all end together. */
const MAX_AGE_JITTER = 0.1;

/** @returns for `ClientStreamOptions`: the age at which one stream ends, another one at each call */
export const maxAgeOf = ({ maxStreamAgeMs }: Limits): { readonly maxAgeMs?: number } =>
  maxStreamAgeMs === 0 ? {} : { maxAgeMs: maxStreamAgeMs * (1 - MAX_AGE_JITTER * Math.random()) };
