/**
 * The status of clients as CSDS shows it: of each client, what it holds of each resource that it subscribes
 * to. Made in slices of time, and bounded: 10,000 clients must not delay the responses to clients.
 */
import type { Projection } from '../../../authorities/index.js';
import {
  encodeClientConfig,
  encodeStatusRow,
  matchesText,
  type ClientStatusRequest,
  type ResourceStatusRow,
  type StatusAny,
} from '../../../protos/client-status.js';
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import type { ClientStream } from '../../clients/client-stream.js';
import { wallTime } from '../../clock.js';
import { resourceStatusOf } from '../../core/session/resource-status.js';
import type { SyncState } from '../../core/session/sync-state.js';
import type { GatewayView } from '../../gateway-view.js';
import { shownText } from '../../telemetry/line-fields.js';
import { clientResources, type ClientResource } from '../client-resources.js';
import { shownBody } from '../shown-resource.js';
import { subscriptionsState } from '../sync-states.js';

/** gRPC clients accept 4 MiB in one message by default. */
const MAX_RESPONSE_BYTES = 4_000_000;
/** Contents of resources in one response. The rows after that have none. */
const MAX_CONTENT_BYTES = 2_000_000;
/** Resources of all clients in one response. A count. */
const MAX_ROWS = 20_000;
/** The work yields to the event loop after this time. Milliseconds. */
const SLICE_MS = 5;

export type StatusReply =
  | { readonly ok: true; readonly bytes: Buffer }
  | { readonly ok: false; readonly status: RpcStatus };

/**
 * @returns an encoded `ClientStatusResponse`, with the clients in the order in which they came; or
 * RESOURCE_EXHAUSTED if it would be too large
 */
export async function clientStatus(
  { server }: Pick<GatewayView, 'server'>,
  { nodeIds, excludesContents }: ClientStatusRequest,
): Promise<StatusReply> {
  const clients = server
    .clients()
    .filter(({ node }) => {
      if (nodeIds.length === 0) return true;
      return node !== undefined && nodeIds.some((matcher) => matchesText(matcher, node.id));
    })
    .sort((one, other) => one.id - other.id);
  const contents = new Contents(excludesContents ? 0 : MAX_CONTENT_BYTES);
  const slices = new Slices();
  const parts: Uint8Array[] = [];
  let bytes = 0;
  let count = 0;
  for (const client of clients) {
    const rows = rowsOf(client, MAX_ROWS - count);
    if (rows === undefined) return tooLarge(clients.length);
    count += rows.length;
    const encoded: Uint8Array[] = [];
    let rowBytes = 0;
    for (const row of rows) {
      const part = encodeStatusRow(await statusRow(row, contents));
      rowBytes += part.length;
      if (bytes + rowBytes > MAX_RESPONSE_BYTES) return tooLarge(clients.length);
      encoded.push(part);
      if (slices.isOver()) await slices.next();
    }
    // A client chooses the id of its Node, and its length.
    const part = encodeClientConfig(client.node, scopeOf(client), encoded);
    bytes += part.length;
    if (bytes > MAX_RESPONSE_BYTES) return tooLarge(clients.length);
    parts.push(part);
    if (slices.isOver()) await slices.next();
  }
  return { ok: true, bytes: Buffer.concat(parts) };
}

function tooLarge(clients: number): StatusReply {
  const message =
    `the status of ${clients} clients has more than ${MAX_ROWS} resources or ${MAX_RESPONSE_BYTES} bytes: ` +
    'choose clients with node_matchers, or use tributary status';
  return { ok: false, status: { code: STATUS_CODE.resourceExhausted, message } };
}

const scopeOf = ({ service, flavour, peer }: ClientStream): string =>
  `${service} ${flavour} of ${peer}`;

interface Row extends ClientResource {
  readonly typeUrl: string;
  readonly state: SyncState;
}

/** Taken in one turn, since the subscriptions change between turns. @returns undefined: too many */
function rowsOf(client: ClientStream, most: number): readonly Row[] | undefined {
  const rows: Row[] = [];
  for (const subscriptions of client.session.allSubscriptions) {
    const { typeUrl } = subscriptions;
    const state = subscriptionsState(client, subscriptions);
    for (const resource of clientResources(subscriptions)) {
      if (rows.length >= most) return undefined;
      rows.push({ ...resource, typeUrl, state });
    }
  }
  return rows;
}

async function statusRow(
  { name, holding, version, served, typeUrl, state }: Row,
  contents: Contents,
): Promise<ResourceStatusRow> {
  const status = resourceStatusOf(holding, state.kind);
  const isRefused = status === 'ERROR' && state.kind === 'NACK';
  return {
    typeUrl,
    name,
    version,
    status,
    clientStatus: holding === 'absent' ? 'DOES_NOT_EXIST' : CLIENT_STATUS[status],
    content: holding === 'current' && served ? await contents.of(served) : undefined,
    error: isRefused
      ? { details: shownText(state.reason), atMs: Date.parse(wallTime(state.sinceMs)) }
      : undefined,
  };
}

const CLIENT_STATUS = {
  SYNCED: 'ACKED',
  NOT_SENT: 'REQUESTED',
  // A response is on its way: the gateway does not know whether the client accepted it.
  STALE: 'UNKNOWN',
  ERROR: 'NACKED',
} as const;

/** The contents of resources without their secrets, each converted once for all clients. */
class Contents {
  readonly #known = new Map<Projection, StatusAny | undefined>();
  #bytesLeft: number;

  constructor(maxBytes: number) {
    this.#bytesLeft = maxBytes;
  }

  async of(projection: Projection): Promise<StatusAny | undefined> {
    if (projection.field.bodyLength > this.#bytesLeft) return undefined;
    let content = this.#known.get(projection);
    if (!this.#known.has(projection)) {
      const value = await shownBody(projection);
      content = value && { typeUrl: projection.typeUrl, value };
      this.#known.set(projection, content);
    }
    this.#bytesLeft -= content?.value.length ?? 0;
    return content;
  }
}

class Slices {
  #fromMs = performance.now();

  isOver(): boolean {
    return performance.now() - this.#fromMs >= SLICE_MS;
  }

  async next(): Promise<void> {
    await new Promise(setImmediate);
    this.#fromMs = performance.now();
  }
}
