/**
 * The message types of the Envoy API, from the descriptor set of `scripts/build-descriptors.mjs`. Each file of it is
 * decoded on first use: all of them at once cost 0.1 s and 20 MB.
 */
import { existsSync, readFileSync } from 'node:fs';
import { LazyRegistry } from './lazy-registry.js';

/** Beside the compiled code, or in `build/` if the code was compiled into another directory. */
const LOCATIONS = [
  new URL('./envoy-descriptors.binpb', import.meta.url),
  new URL('../../build/protos/envoy-descriptors.binpb', import.meta.url),
];

let registry: LazyRegistry | undefined;

/** @throws Error if the descriptor set is missing: a broken installation, not bad input */
export function envoyRegistry(): LazyRegistry {
  if (registry !== undefined) return registry;
  const location = LOCATIONS.find((candidate) => existsSync(candidate));
  if (location === undefined) {
    throw new Error('envoy-descriptors.binpb is missing: run node scripts/build-descriptors.mjs');
  }
  registry = new LazyRegistry(readFileSync(location));
  return registry;
}
