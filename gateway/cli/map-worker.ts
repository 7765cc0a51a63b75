/**
 * A thread that reads one authority map, since a large map takes seconds. It sends one piece for each
 * request, so that receiving them never blocks the event loop for long.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { piecesOf, type MapTask } from './map-pieces.js';

const pieces = piecesOf(workerData as MapTask);
parentPort?.on('message', () => {
  const next = pieces.next();
  if (next.done !== true) parentPort?.postMessage(next.value);
});
