/** Tells a bootstrap of a client from an authority map. */
import { isObject } from '../../protos/json-object.js';
import { field, textOf } from './json-fields.js';

export type BootstrapKind = 'envoy' | 'grpc';

/** Fields of Envoy's Bootstrap that no authority map has. */
const OF_ENVOY = ['static_resources', 'dynamic_resources', 'admin', 'layered_runtime', 'node'];

const BOOTSTRAP_TYPE = 'envoy.config.bootstrap.v3.Bootstrap';

/** @param value a parsed file. @returns undefined: it may be an authority map */
export function bootstrapKindOf(value: unknown): BootstrapKind | undefined {
  if (!isObject(value) || field(value, 'sources') !== undefined) return undefined;
  if (Array.isArray(field(value, 'xds_servers'))) return 'grpc';
  const isTyped = textOf(value, '@type')?.endsWith(BOOTSTRAP_TYPE) === true;
  return isTyped || OF_ENVOY.some((name) => field(value, name) !== undefined) ? 'envoy' : undefined;
}

/** For people. */
export const BOOTSTRAP_WORDS: Readonly<Record<BootstrapKind, string>> = {
  envoy: 'an Envoy bootstrap',
  grpc: 'a gRPC bootstrap',
};
