/** `/clients`: the client streams, the clients that poll, and their subscriptions. */
import type { ClientStream } from '../clients/client-stream.js';
import { identityText } from '../core/rights/requester.js';
import { wireText } from '../../protos/resource-name.js';
import { shortTypeOf } from '../../protos/type-urls.js';
import { wallTime } from '../clock.js';
import { shownText } from '../telemetry/line-fields.js';
import { clientPage } from './client-pages.js';
import { jsonPieces } from './pieces.js';
import type { AdminContext, AdminRequest, Reply } from './reply.js';

export async function clients(context: AdminContext, request: AdminRequest): Promise<Reply> {
  const nowMs = context.clock();
  return clientPage(context, request, (stream) => clientRow(stream, nowMs));
}

function clientRow(stream: ClientStream, nowMs: number): IterableIterator<string> {
  const { session } = stream;
  const head = {
    id: stream.id,
    peer: stream.peer,
    identity: identityText(stream.requester.identity),
    protocol: stream.flavour,
    service: stream.service,
    node: stream.node ?? null,
    since: wallTime(stream.openedAtMs),
    paused: stream.isPaused,
    names: session.nameCount,
    ...(session.limit.maxBytes === Infinity ? {} : { maxMessage: session.limit.maxBytes }),
    withheld: session.limit.withheld.map(({ typeUrl, name, bytes }) => ({
      type: shortTypeOf(typeUrl),
      ...(name === undefined ? { set: true } : { name: wireText(name) }),
      bytes,
    })),
    ...(stream.nodeGroup === undefined ? {} : { nodeGroup: stream.nodeGroup }),
    rejections: stream.rejections.map(({ typeUrl, authority, atMs, detail, acceptedAtMs }) => ({
      type: shortTypeOf(typeUrl),
      authority,
      at: wallTime(atMs),
      code: detail.code,
      reason: shownText(detail.message),
      ...(acceptedAtMs === undefined ? {} : { acceptedAt: wallTime(acceptedAtMs) }),
    })),
  };
  return jsonPieces(head, 'subscriptions', session.allSubscriptions, (subscriptions) => ({
    type: shortTypeOf(subscriptions.typeUrl),
    authority: subscriptions.authority,
    names: subscriptions.nameCount,
    ...(subscriptions.inFlightSinceMs === undefined
      ? {}
      : { inFlight: true, inFlightMs: Math.round(nowMs - subscriptions.inFlightSinceMs) }),
  }));
}
