/**
 * The message types of the Envoy API, from the descriptor set of `scripts/build-descriptors.mjs`. Loaded
 * on first use (about 0.1 s and 20 MB), so a gateway without file sources and dumps avoids the cost.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createFileRegistry, fromBinary, type FileRegistry } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';

/** Beside the compiled code, or in `build/` if the code was compiled into another directory. */
const LOCATIONS = [
  new URL('./envoy-descriptors.binpb', import.meta.url),
  new URL('../../build/protos/envoy-descriptors.binpb', import.meta.url),
];

let registry: FileRegistry | undefined;

/** @throws Error if the descriptor set is missing: a broken installation, not bad input */
export function envoyRegistry(): FileRegistry {
  if (registry !== undefined) return registry;
  const location = LOCATIONS.find((candidate) => existsSync(candidate));
  if (location === undefined) {
    throw new Error('envoy-descriptors.binpb is missing: run node scripts/build-descriptors.mjs');
  }
  registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(location)));
  return registry;
}
