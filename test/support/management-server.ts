/** The machine of one gRPC source that may publish every name, tested alone: each attempt connects at once. */
import {
  ManagementServer,
  type ManagementServerOptions,
  type ServerEffect,
} from '../../authorities/core/sources/management-server.js';
import type { GrpcSourceSpec } from '../../config/model.js';
import { mapOf } from './federation-driver.js';

class ConnectedServer extends ManagementServer {
  override takeEffects(nowMs: number): readonly ServerEffect[] {
    const effects = super.takeEffects(nowMs);
    const dial = effects.find(({ kind }) => kind === 'dial');
    if (dial?.kind !== 'dial') return effects;
    this.handleAttemptEvent(dial.epoch, { kind: 'writable' }, nowMs);
    return [...effects, ...super.takeEffects(nowMs)];
  }
}

/**
 * @param spec what differs from the defaults of the map
 * @param options what differs from the options below
 */
export function managementServerOf(
  spec: Partial<GrpcSourceSpec> = {},
  options: Partial<ManagementServerOptions> = {},
): ManagementServer {
  const sketched = mapOf({ authorities: { c: { sources: ['s'] } } }).sources.get('s');
  if (sketched?.kind !== 'grpc') throw new Error('the sketch has one gRPC source');
  return new ConnectedServer({
    spec: { ...sketched, ...spec },
    id: 's',
    node: Buffer.alloc(0),
    mayServe: () => true,
    maxResourcesPerResponse: 100,
    random: () => 0,
    lastEpoch: 0,
    ...options,
  });
}
