/** Options of a stream machine that is tested alone: a source that may publish every name. */
import type { DeltaStreamOptions } from '../../authorities/core/sources/delta-stream.js';

export const STREAM_OPTIONS: DeltaStreamOptions = {
  node: new Uint8Array(),
  mayServe: () => true,
  resourceTimeoutMs: 30_000,
  quietResumeMs: 15_000,
  isPerType: false,
  nodeInEveryRequest: false,
  maxResourcesPerResponse: 100_000,
  portionBytes: Infinity,
  resume: 'trusted',
  maxNamesPerRequest: Infinity,
};
