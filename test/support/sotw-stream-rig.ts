/**
 * The state machine of one state-of-the-world stream to a source, alone: what it requests, and what
 * it holds after each response.
 */
import { SotwStream } from '../../authorities/core/sources/sotw-stream.js';
import { SourceContents } from '../../authorities/core/sources/source-contents.js';
import { wholeOf } from '../../protos/discovery-fields.js';
import { oldStyleName, type ResourceName } from '../../protos/resource-name.js';
import { decodeSotwRequest, encodeSotwResponse } from '../../protos/sotw-codec.js';
import { encodeResourceField } from '../../protos/resource-field.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { lengthDelimited } from '../sim/names.js';
import { STREAM_OPTIONS } from './stream-options.js';
import { at } from './stream-times.js';

const SCOPE = 'scope';
export const CDS = TYPE_URL.cluster;
export const EDS = TYPE_URL.clusterLoadAssignment;
export const old = (text: string): ResourceName => oldStyleName(SCOPE, text);
const NODE = new Uint8Array([1]);

/** A message whose field 1 is its name, and whose field 90 is a mark. */
export const bodyOf = (name: string, mark: number): Buffer =>
  Buffer.concat([lengthDelimited(1, Buffer.from(name)), Buffer.from([0xd0, 0x05, mark])]);

/** A bare resource: an Any in field 2. */
export const any = (typeUrl: string, body: Uint8Array): Buffer =>
  lengthDelimited(
    2,
    Buffer.concat([
      lengthDelimited(1, Buffer.from(typeUrl)),
      lengthDelimited(2, Buffer.from(body)),
    ]),
  );

export const bare = (typeUrl: string, name: string, mark = 1): Buffer =>
  any(typeUrl, bodyOf(name, mark));

/** A resource in its wrapper. @param body absent: a heartbeat */
export function wrapped(
  name: string,
  version: string,
  ttlSeconds: number,
  body?: Buffer,
  typeUrl: string = CDS,
): Buffer {
  const any = body && encodeResourceField(name, version, typeUrl, body).bytes;
  const inner = Buffer.concat([
    ...(any ? [any.subarray(any.indexOf(0x0a))] : [lengthDelimited(3, Buffer.from(name))]),
    lengthDelimited(6, Buffer.from([0x08, ttlSeconds])),
  ]);
  const value = Buffer.concat([
    lengthDelimited(1, Buffer.from(TYPE_URL.resource)),
    lengthDelimited(2, inner),
  ]);
  return lengthDelimited(2, value);
}

export function start(change: Partial<typeof STREAM_OPTIONS> = {}) {
  const contents = new SourceContents('state of the world');
  const stream = new SotwStream(contents, {
    ...STREAM_OPTIONS,
    node: NODE,
    oldStyle: { scope: SCOPE, mayServe: () => true },
    ...change,
  });
  const listener = {};
  let nonce = 0;
  return {
    contents,
    stream,
    subscribe: (typeUrl: string, text: string, nowMs = 0): void => {
      const added = contents.subscribe(typeUrl, old(text), listener);
      if (added) stream.handleSubscribed(added, nowMs);
    },
    unsubscribe: (typeUrl: string, text: string, nowMs = 0): void => {
      const left = contents.unsubscribe(typeUrl, old(text), listener);
      if (left) stream.handleUnsubscribed(left, nowMs);
    },
    /** The requests that are due, as `type names version nonce`. */
    requests: (nowMs = 0) => {
      const all = [];
      for (let one = stream.pollRequest(nowMs); one; one = stream.pollRequest(nowMs)) {
        const decoded = decodeSotwRequest(one.bytes, Infinity);
        if (!decoded.ok) throw new Error(decoded.reason);
        const { typeUrl, names, versionInfo, responseNonce, node, errorDetail } = decoded.message;
        all.push({
          typeUrl,
          names,
          versionInfo,
          responseNonce,
          node: !!node,
          nack: errorDetail?.message,
        });
      }
      return all;
    },
    respond: (typeUrl: string, versionInfo: string, resources: readonly Buffer[], nowMs = 0) => {
      const parts = { typeUrl, versionInfo, nonce: `n${++nonce}`, resources, errors: [] };
      let read = stream.handleMessage(wholeOf(encodeSotwResponse(parts)), at(nowMs));
      while (stream.inPortions.isMidResponse) read = stream.inPortions.continue(nowMs);
      return read;
    },
    held: (typeUrl: string): readonly string[] =>
      [...contents.entries(typeUrl)].map(({ projection }) => projection.name.id),
    status: (typeUrl: string, text: string) => contents.subscription(typeUrl, old(text))?.status,
    changes: () =>
      contents
        .takeChanges()
        .map(({ kind, name, isDoubtful = false }) => [kind, name.id, isDoubtful]),
  };
}
