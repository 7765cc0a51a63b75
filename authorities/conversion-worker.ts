/** A thread that converts resources and reads files of resources, one after the other. See conversion-thread.ts. */
import { parentPort, type Transferable } from 'node:worker_threads';
import { largeResourceToJson, type Converted } from '../protos/rest-client-json.js';
import { resourceFromJson, redactedJson } from '../protos/json-resources.js';
import { largeResourceFromJson } from '../protos/rest-source-json.js';
import { NEXT_PIECE, type Message, type ShowTask, type Task } from './conversion-thread.js';
import type { ParsedText } from './core/sources/good-files.js';
import { parsedFile } from './parsed-file.js';

/** Resources of a file in one message: to receive them takes the other thread some 2 ms. A count. */
const RESOURCES_PER_MESSAGE = 500;

/** Tasks that wait until the last piece of a file is sent. */
const waiting: Task[] = [];
/** The rest of a file. The other thread asks for each piece: it would receive all that are there in one turn. */
let pieces: Iterator<Message> | undefined;

const send = (message: Message, moved: Transferable[] = []): void => {
  parentPort?.postMessage(message, moved);
};

parentPort?.on('message', (task: Task | typeof NEXT_PIECE) => {
  if (task === NEXT_PIECE) sendPiece();
  else waiting.push(task);
  while (!pieces) {
    const next = waiting.shift();
    if (next === undefined) return;
    convert(next);
  }
});

function convert(task: Task): void {
  if (typeof task === 'string') {
    const result = largeResourceFromJson(task);
    send({ result, isMore: false }, result.ok ? movable(result.value.bytes) : []);
  } else if (task instanceof Uint8Array) {
    const result = largeResourceToJson(task);
    send({ result, isMore: false }, result.ok ? movable(result.value) : []);
  } else if ('text' in task) {
    pieces = piecesOf(parsedFile(task.text, task.path));
    sendPiece();
  } else {
    const result = shown(task);
    send({ result, isMore: false }, result.ok ? movable(result.value) : []);
  }
}

function shown({ typeUrl, body, as }: ShowTask): Converted<Uint8Array> {
  const json = redactedJson(typeUrl, body);
  if (as === 'json') return { ok: true, value: Buffer.from(JSON.stringify(json)) };
  const read = resourceFromJson(json);
  return read.ok ? { ok: true, value: read.body } : { ok: false, reason: read.message };
}

function sendPiece(): void {
  const next = pieces?.next();
  if (next?.done !== false) return;
  if (!next.value.isMore) pieces = undefined;
  send(next.value);
}

function* piecesOf(parsed: ParsedText): Generator<Message> {
  const { length } = parsed.resources;
  for (let at = 0, isMore = true; isMore; at += RESOURCES_PER_MESSAGE) {
    isMore = at + RESOURCES_PER_MESSAGE < length;
    const resources = parsed.resources.slice(at, at + RESOURCES_PER_MESSAGE);
    yield { result: { ok: true, value: { ...parsed, resources } }, isMore };
  }
}

/** The bytes, without a copy if nothing else is in their memory. */
function movable({ buffer, byteLength }: Uint8Array): Transferable[] {
  return byteLength === buffer.byteLength ? [buffer as ArrayBuffer] : [];
}
