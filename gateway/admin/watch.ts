/** `/watch/<urn>`: every change of a name, or of the members of a glob, as it happens. */
import type { Writable } from 'node:stream';
import { wallTime } from '../clock.js';
import type { GatewayView } from '../gateway-view.js';
import { shownText } from '../telemetry/line-fields.js';
import { openChangeFeed, type ChangeRow } from './change-feed.js';
import { servedAs } from './explain.js';
import { failure, type AdminContext, type AdminRequest, type Reply } from './reply.js';
import { withName, type Found } from './resources.js';
import { shownJson, withJson } from './shown-resource.js';

/** Watches at a time, far fewer than the connections of the admin server. A count. */
const MAX_WATCHES = 64;
/** The admin server closes a connection that is silent for 30 s. */
const HEARTBEAT_MS = 15_000;

const openWatches = new WeakMap<GatewayView, number>();

/** One change. The fields that do not apply are absent. */
export interface ChangeLine {
  readonly at: string;
  readonly kind: ChangeRow['kind'];
  readonly name: string;
  readonly version?: string;
  readonly source?: string;
  readonly message?: string;
  readonly count?: number;
  /** Of a single name: the content, without secrets. */
  readonly resource?: unknown;
}

/**
 * A stream of `ChangeLine`: one JSON object a line, and an empty line when nothing happens for 15 s; or
 * server-sent events for `accept: text/event-stream`. 503 if 64 watches are open.
 */
export function watch(context: AdminContext, request: AdminRequest): Reply {
  return withName<Reply>(context, request, '/watch/', (found) => {
    if ((openWatches.get(context.gateway) ?? 0) >= MAX_WATCHES) {
      return failure(503, `${MAX_WATCHES} watches are open`, { hint: 'end one of them' });
    }
    const isEvents = request.headers.accept?.includes('text/event-stream') === true;
    const form = isEvents
      ? { contentType: 'text/event-stream', before: 'data: ', after: '\n\n', heartbeat: ':\n\n' }
      : { contentType: 'application/x-ndjson', before: '', after: '\n', heartbeat: '\n' };
    return {
      status: 200,
      contentType: form.contentType,
      body: '',
      goOn: (out) => {
        send(context, found, form, out);
      },
    };
  });
}

interface Form {
  readonly before: string;
  readonly after: string;
  readonly heartbeat: string;
}

function send(context: AdminContext, found: Found, form: Form, out: Writable): void {
  const { gateway, telemetry, clock } = context;
  let isDue = false;
  const fail = (error: unknown): void => {
    telemetry.onHandlerError(error);
    out.destroy();
  };
  const flush = async (): Promise<void> => {
    if (out.destroyed) return;
    const rows = out.writableNeedDrain ? [] : feed.take();
    let text = '';
    for (const row of rows) text += form.before + (await lineOf(context, found, row)) + form.after;
    // What changes from here on makes the next flush due.
    isDue = false;
    if (rows.length === 0) return;
    out.write(text);
    schedule();
  };
  const schedule = (): void => {
    if (isDue) return;
    isDue = true;
    setImmediate(() => {
      flush().catch(fail);
    });
  };
  const feed = openChangeFeed(gateway.cache, found.typeUrl, found.name, schedule);
  openWatches.set(gateway, (openWatches.get(gateway) ?? 0) + 1);
  const beat = setInterval(() => {
    // To a reader that does not read, nothing is written: the silence ends its connection.
    if (!out.writableNeedDrain) out.write(form.heartbeat);
  }, HEARTBEAT_MS);
  beat.unref();
  out.on('drain', schedule);
  out.once('close', () => {
    clearInterval(beat);
    openWatches.set(gateway, (openWatches.get(gateway) ?? 1) - 1);
    feed.close(clock());
  });
  schedule();
}

/** @returns the JSON of a `ChangeLine` */
async function lineOf(
  { clock }: AdminContext,
  { group, name, typeUrl }: Found,
  { projection, message, ...row }: ChangeRow,
): Promise<string> {
  const line: ChangeLine = {
    at: wallTime(clock()),
    ...row,
    ...(message === undefined ? {} : { message: shownText(message) }),
    ...(projection ? servedAs(group, typeUrl, projection.name, projection) : {}),
  };
  if (!projection || name.isGlob) return JSON.stringify(line);
  return withJson(line, 'resource', await shownJson(projection));
}
