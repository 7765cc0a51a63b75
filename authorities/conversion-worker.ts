/** A thread that converts large resources between their bytes and JSON, one after the other. See conversion-thread.ts. */
import { parentPort, type Transferable } from 'node:worker_threads';
import { largeResourceToJson } from '../protos/discovery-json.js';
import { largeResourceFromJson } from '../protos/rest-source-json.js';
import type { Task } from './conversion-thread.js';

parentPort?.on('message', (task: Task) => {
  const result = typeof task === 'string' ? largeResourceFromJson(task) : largeResourceToJson(task);
  parentPort?.postMessage(result, moved(result.ok ? result.value : undefined));
});

/** The bytes, without a copy if nothing else is in their memory. */
function moved(value: Uint8Array | { readonly bytes: Uint8Array } | undefined): Transferable[] {
  const bytes = value instanceof Uint8Array ? value : value?.bytes;
  const isAlone = bytes?.byteLength === bytes?.buffer.byteLength;
  return bytes && isAlone ? [bytes.buffer as ArrayBuffer] : [];
}
