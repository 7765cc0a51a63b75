/**
 * The shell of one client's stream of load reports (`LoadReportingService.StreamLoadStats`): decodes its
 * reports, and writes what the session asks of it. Unlike a discovery stream, it costs nothing between
 * two reports.
 */
import { isDeepStrictEqual } from 'node:util';
import type { OldStyleSpec } from '../../config/model.js';
import type { RpcStatus } from '../../protos/discovery.js';
import { decodingLoadStatsRequest } from '../../protos/load-stats-codec.js';
import type { LoadStatsRequest } from '../../protos/load-stats.js';
import type { ResourceName } from '../../protos/resource-name.js';
import type { ClientScope } from '../core/session/asked-name.js';
import {
  clientScopeOf,
  type GroupedNode,
  type NodeGroupRoom,
} from '../core/session/client-scope.js';
import { isGrpcLibrary } from '../core/session/message-limit.js';
import { statusOfUnreadable } from '../core/session/request-checks.js';
import {
  LoadReportSession,
  type LoadReportsPort,
} from '../core/load-reports/load-report-session.js';
import type { PeerAccount } from '../core/quotas/quotas.js';
import { INTERNAL_ERROR, OLD_STYLE_RULES_CHANGED, TOKEN_EXPIRED } from './call-statuses.js';
import type { LongRequest, LongRequests } from './long-requests.js';
import type { StreamPort } from './client-stream.js';
import { OpeningIdentity } from './opening-identity.js';

export interface LoadReportStreamOptions {
  readonly id: number;
  readonly port: StreamPort;
  /** Of the client's peer. */
  readonly account?: PeerAccount;
  readonly longRequests: LongRequests;
  readonly loads: LoadReportsPort;
  readonly maxEntriesPerReport: number;
  readonly nodeGroupRoom: NodeGroupRoom;
  /** `old_style_names` of the current authority map. */
  readonly oldStyle: () => OldStyleSpec | undefined;
  readonly knownName: (typeUrl: string, key: string) => ResourceName | undefined;
  readonly clock: () => number;
  readonly onEvent: (stream: LoadReportStream, event: LoadReportStreamEvent) => void;
  /** Gateway code threw: the stream ends, the process continues. */
  readonly onError: (error: unknown) => void;
}

export type LoadReportStreamEvent =
  | { readonly kind: 'opened' }
  | { readonly kind: 'closed'; readonly reason: string }
  | { readonly kind: 'malformed'; readonly reason: string }
  /** `unknown`: names of clusters that no source serves; their loads are dropped. */
  | { readonly kind: 'report'; readonly clusters: number; readonly unknown: readonly string[] };

export class LoadReportStream implements LongRequest {
  readonly id: number;
  readonly #options: LoadReportStreamOptions;
  readonly #endsAtMs: number;
  readonly #identity: OpeningIdentity;
  #session: LoadReportSession | undefined;
  #node: GroupedNode | undefined;
  #writable = true;
  #closed = false;
  #timer: NodeJS.Timeout | undefined;
  /** Of the report that is being handled; undefined: none is. */
  #steps: Generator<unknown, void, unknown> | undefined;
  /** Messages that came meanwhile; the client is not read. */
  #waiting: Uint8Array[] = [];
  /** Releases the quota that the present report takes. */
  #letGo: (() => void) | undefined;
  #isBehind = false;

  constructor(options: LoadReportStreamOptions) {
    this.id = options.id;
    this.#options = options;
    this.#endsAtMs = options.clock() + (options.port.validForMs ?? Infinity);
    this.#identity = new OpeningIdentity(options.port, options.oldStyle());
    this.#tell({ kind: 'opened' });
  }

  get peer(): string {
    return this.#options.port.peer;
  }

  /** The id of the client's Node; undefined: it sent none. */
  get nodeId(): string | undefined {
    const { node } = this.#node ?? {};
    return node && !node.isMissing ? node.id : undefined;
  }

  get account(): PeerAccount | undefined {
    return this.#options.account;
  }

  /** @param bytes valid during this call only */
  handleMessage(bytes: Uint8Array): void {
    this.#waiting.push(Uint8Array.from(bytes));
    // A report is under way: this message was read together with it.
    if (!this.#steps) this.continueRequest();
  }

  /** Handles the next portion of a report, or of the one that came after it. */
  continueRequest(): void {
    this.#guard(() => {
      this.#steps ??= this.#begin(this.#waiting.shift());
      if (this.#steps.next().done === true) {
        this.#letGo?.();
        this.#steps = undefined;
      }
      const { longRequests, port } = this.#options;
      const isBehind = this.#steps !== undefined || this.#waiting.length > 0;
      if (isBehind) longRequests.add(this);
      if (isBehind === this.#isBehind) return;
      this.#isBehind = isBehind;
      if (isBehind) port.pauseReading?.();
      else port.readOn?.();
    });
  }

  #begin(bytes: Uint8Array = new Uint8Array()): Generator<unknown, void, unknown> {
    this.#letGo = this.account?.holdRequest(bytes.length);
    return this.#read(bytes);
  }

  /** Each step handles a portion of a report. */
  *#read(bytes: Uint8Array): Generator<unknown, void, unknown> {
    const decoded = yield* decodingLoadStatsRequest(bytes, this.#options.maxEntriesPerReport);
    if (decoded.ok) {
      yield* this.#take(decoded.message);
      return;
    }
    this.#tell({ kind: 'malformed', reason: decoded.reason });
    this.end(statusOfUnreadable('load report', decoded));
  }

  handleDrain(): void {
    this.#writable = true;
    this.#pump();
  }

  /** Ends the stream if the client's token has expired. */
  endIfDue(): void {
    if (this.#options.clock() >= this.#endsAtMs) this.end(TOKEN_EXPIRED);
  }

  /** Ends the stream if a new map moves the client to another node group. */
  endIfRegrouped(): void {
    const { scope } = this.#session ?? {};
    if (!scope || !this.#node || isDeepStrictEqual(scope, this.#scopeOf(this.#node))) return;
    this.end(OLD_STYLE_RULES_CHANGED);
  }

  end(status: RpcStatus | undefined): void {
    if (this.#closed) return;
    this.#options.port.end(status);
    this.handleClosed(status?.message ?? 'ended by the client');
  }

  handleClosed(reason: string): void {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#options.longRequests.delete(this);
    this.#waiting = [];
    this.#letGo?.();
    this.#session?.close();
    this.#tell({ kind: 'closed', reason });
  }

  *#take({ node, clusters }: LoadStatsRequest): Generator<unknown, void, unknown> {
    this.#session ??= this.#open(node);
    // A report without clusters says that no request is in progress.
    const unknown = yield* this.#session.handleReport(clusters);
    if (clusters.length > 0) this.#tell({ kind: 'report', clusters: clusters.length, unknown });
    this.#write();
  }

  /** The first request: Envoy repeats its Node in each one. */
  #open(bytes: Uint8Array | undefined): LoadReportSession {
    const { loads, knownName, port } = this.#options;
    const read = this.#identity.group(bytes);
    this.#node = read;
    const { userAgentName } = read.node;
    return new LoadReportSession({
      loads,
      scope: this.#scopeOf(read),
      mayAskByEndpoint: !isGrpcLibrary({ userAgentName, header: port.userAgent }),
      knownName,
      onReady: () => {
        this.#pump();
      },
    });
  }

  #scopeOf(node: GroupedNode): ClientScope {
    const { oldStyle, nodeGroupRoom } = this.#options;
    return clientScopeOf(node, oldStyle(), nodeGroupRoom);
  }

  #pump(): void {
    this.#guard(() => {
      this.#write();
    });
  }

  #write(): void {
    clearTimeout(this.#timer);
    // `onReady` may come before the constructor of the session returns.
    if (!this.#session || !this.#writable) return;
    const bytes = this.#session.poll();
    if (bytes) this.#writable = this.#options.port.write([Buffer.from(bytes)]);
    const dueMs = this.#session.nextDeadlineMs;
    if (dueMs === undefined) return;
    this.#timer = setTimeout(
      () => {
        this.#pump();
      },
      Math.max(1, dueMs - this.#options.clock()),
    );
    this.#timer.unref();
  }

  /** Callers are libraries and timers: an exception must end this stream, not the process. */
  #guard(work: () => void): void {
    if (this.#closed) return;
    try {
      work();
    } catch (error) {
      this.#options.onError(error);
      this.end(INTERNAL_ERROR);
    }
  }

  #tell(event: LoadReportStreamEvent): void {
    this.#options.onEvent(this, event);
  }
}
