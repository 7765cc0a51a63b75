/** What the admin side answers, before it is HTTP. */
import type { IncomingHttpHeaders } from 'node:http';
import type { GatewayView } from '../gateway-view.js';
import type { Telemetry } from '../telemetry/telemetry.js';

export interface Reply {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface AdminRequest {
  readonly method: string;
  /** As sent: not decoded, not normalized, without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** As sent, with its `?`; for names with context parameters. */
  readonly rawQuery: string;
  readonly headers: IncomingHttpHeaders;
}

export interface AdminContext {
  readonly gateway: GatewayView;
  readonly telemetry: Telemetry;
  /** Where the admin side listens, without the port. */
  readonly listenHost: string;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
}

export function json(status: number, value: unknown): Reply {
  const body = `${JSON.stringify(value)}\n`;
  return { status, contentType: 'application/json', body };
}

/** @param more what helps to get it right. */
export function failure(status: number, error: string, more: Record<string, unknown> = {}): Reply {
  return json(status, { error, ...more });
}
