/**
 * The Envoy API's message types, from the descriptor set that `scripts/build-descriptors.mjs` builds.
 * Read once, on first use (about 0.1 s and 20 MB): a gateway without files and dumps never pays it.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createFileRegistry, fromBinary, type FileRegistry } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';

/** Beside the compiled code; or in `build/` when the code was compiled into another directory. */
const LOCATIONS = [
  new URL('./envoy-descriptors.binpb', import.meta.url),
  new URL('../../build/protos/envoy-descriptors.binpb', import.meta.url),
];

let registry: FileRegistry | undefined;

/** Throws when the descriptor set was not built: that is a broken installation, not bad input. */
export function envoyRegistry(): FileRegistry {
  if (registry !== undefined) return registry;
  const location = LOCATIONS.find((candidate) => existsSync(candidate));
  if (location === undefined) {
    throw new Error('envoy-descriptors.binpb is missing: run node scripts/build-descriptors.mjs');
  }
  registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(location)));
  return registry;
}
