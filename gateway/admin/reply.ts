/** Requests and responses of the admin API, independent of the HTTP server. */
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { GatewayView } from '../gateway-view.js';
import type { Telemetry } from '../telemetry/telemetry.js';

export interface Reply {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Writes the rest of the response, and ends it. Absent: `body` is all of it. */
  readonly goOn?: (response: ServerResponse) => void;
}

export interface AdminRequest {
  readonly method: string;
  /** As sent: not decoded, not normalized, without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** As sent, with its `?`: an unencoded name in the path may have context parameters. */
  readonly rawQuery: string;
  readonly headers: IncomingHttpHeaders;
}

export interface AdminContext {
  readonly gateway: GatewayView;
  readonly telemetry: Telemetry;
  /** The host that the admin server listens on, without the port. */
  readonly listenHost: string;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
  /** Absent without an admin server: then no browser follows the page. */
  readonly pageEvents?: PageFollowers;
}

/** The browsers that show the page of the gateway and follow its changes. */
export interface PageFollowers {
  /**
   * @param query of the page that the browser shows
   * @returns starts the stream of events on a response whose headers are sent; undefined: no room
   */
  admit(query: URLSearchParams): ((response: ServerResponse) => void) | undefined;
}

/** By this header commands know that they found the admin port, and not that of clients or probes. */
export const ADMIN_MARK = { header: 'x-tributary', value: 'admin' } as const;

export function json(status: number, value: unknown): Reply {
  return jsonText(status, JSON.stringify(value));
}

/** @param text JSON */
export function jsonText(status: number, text: string): Reply {
  return { status, contentType: 'application/json', body: `${text}\n` };
}

/** @param more further fields that help to correct the request, e.g. `hint` */
export function failure(status: number, error: string, more: Record<string, unknown> = {}): Reply {
  return json(status, { error, ...more });
}
