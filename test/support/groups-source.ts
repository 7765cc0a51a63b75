/**
 * A delta control plane on node:http2 for many node groups: each stream gets one resource. The test sees its
 * connections and streams, and ends or refuses them.
 */
import {
  createServer,
  type Http2Server,
  type Http2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { MessageReader } from '../../gateway/clients/message-reader.js';
import { decodeRequest, encodeResponse } from './discovery-messages.js';

const HEADERS = { ':status': 200, 'content-type': 'application/grpc' } as const;
const PREFIX_BYTES = 5;

export interface GroupStream {
  readonly session: Http2Session;
  readonly nodeId: string;
  /** Ends it with a status of gRPC. */
  end(status: number): void;
}

function framed(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

export class GroupsSource {
  /** Of the resource that the next streams get. */
  body = 'v1';
  /** The status for streams of these node ids; others are served. */
  readonly refused = new Map<string, number>();
  /** All connections so far. */
  readonly sessions: Http2Session[] = [];
  /** Open streams that were served. */
  readonly streams = new Set<GroupStream>();
  /** The most streams, served or not, that one connection had at once. */
  mostOfOneConnection = 0;
  readonly #server: Http2Server;
  readonly #open = new Map<Http2Session, number>();

  private constructor(maxConcurrentStreams: number) {
    this.#server = createServer({ settings: { maxConcurrentStreams } });
    this.#server.on('sessionError', () => undefined);
    this.#server.on('session', (session) => {
      this.sessions.push(session);
    });
    this.#server.on('stream', (stream) => {
      this.#serve(stream);
    });
  }

  static async start(maxConcurrentStreams = 1_000): Promise<GroupsSource> {
    const source = new GroupsSource(maxConcurrentStreams);
    await new Promise<void>((resolve) => source.#server.listen(0, '127.0.0.1', resolve));
    return source;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get openSessions(): readonly Http2Session[] {
    return this.sessions.filter(({ destroyed }) => !destroyed);
  }

  stop(): void {
    this.#server.close();
    for (const session of this.sessions) session.destroy();
  }

  #serve(stream: ServerHttp2Stream): void {
    const { session } = stream;
    stream.on('error', () => undefined);
    if (!session) return;
    const count = (this.#open.get(session) ?? 0) + 1;
    this.#open.set(session, count);
    this.mostOfOneConnection = Math.max(this.mostOfOneConnection, count);
    stream.on('close', () => this.#open.set(session, (this.#open.get(session) ?? 1) - 1));
    const reader = new MessageReader(Infinity);
    stream.on('data', (chunk: Buffer) => {
      reader.push(chunk, (message) => {
        if (!stream.headersSent) this.#answer(stream, session, message);
      });
    });
  }

  #answer(stream: ServerHttp2Stream, session: Http2Session, message: Buffer): void {
    const { nodeId, typeUrl } = decodeRequest(message);
    const refusal = this.refused.get(nodeId);
    if (refusal !== undefined) {
      stream.respond({ ...HEADERS, 'grpc-status': String(refusal) }, { endStream: true });
      return;
    }
    let status = 0;
    stream.respond(HEADERS, { waitForTrailers: true });
    stream.on('wantTrailers', () => {
      stream.sendTrailers({ 'grpc-status': String(status) });
    });
    const served: GroupStream = {
      session,
      nodeId,
      end: (code) => {
        status = code;
        stream.end();
      },
    };
    this.streams.add(served);
    stream.on('close', () => this.streams.delete(served));
    const resources = [{ name: 'x', version: this.body, body: Buffer.from(this.body) }];
    stream.write(framed(encodeResponse({ typeUrl, nonce: this.body, resources })));
  }
}
