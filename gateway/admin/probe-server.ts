/**
 * The probe server: `/live` and `/ready` on their own address, so that a flood of requests
 * to the admin port does not make the orchestrator restart the gateway. Everybody may ask, so it gives no
 * reasons; the admin server does.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Settings } from '../../config/settings.js';
import { writeReply } from './admin-server.js';
import { BoundedHttp } from './bounded-http.js';
import { isReady, live } from './health.js';
import { failure, json, type AdminContext, type Reply } from './reply.js';

export interface ProbeServerOptions {
  readonly settings: Settings['probe'];
  readonly context: AdminContext;
}

const MAX_CONNECTIONS = 64;

export class ProbeServer extends BoundedHttp {
  constructor({ settings, context }: ProbeServerOptions) {
    super({
      ...settings,
      setting: 'probe',
      maxConnections: MAX_CONNECTIONS,
      onRequest: (request: IncomingMessage, response: ServerResponse) => {
        writeReply(replyTo(request, context), request, response);
        return Promise.resolve();
      },
      onError: (error) => {
        context.telemetry.onHandlerError(error);
      },
    });
  }
}

function replyTo({ method, url = '' }: IncomingMessage, context: AdminContext): Reply {
  const path = url.split('?')[0];
  if (path !== '/live' && path !== '/ready') return failure(404, 'use /live or /ready');
  if (method !== 'GET' && method !== 'HEAD') {
    return { ...failure(405, 'use GET'), headers: { allow: 'GET, HEAD' } };
  }
  if (path === '/live') return live();
  const ready = isReady(context);
  return json(ready ? 200 : 503, { ready });
}
