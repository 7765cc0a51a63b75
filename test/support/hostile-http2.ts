/**
 * An HTTP/2 client of bare frames (RFC 9113) on a TCP socket, for what no HTTP library sends: floods,
 * unread windows, frames without an end.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  resetStream: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const FLAG = { ack: 1, endStream: 1, endHeaders: 4 } as const;

const SETTINGS_INITIAL_WINDOW = 4;
/** RFC 9113, 3.4; SETTINGS follow. */
export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const HEADER_BYTES = 9;
const ADS = '/envoy.service.discovery.v3.AggregatedDiscoveryService';

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
}

type HeaderPairs = readonly (readonly [name: string, value: string])[];

export const ADS_HEADERS: HeaderPairs = [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':authority', 'test'],
  [':path', `${ADS}/DeltaAggregatedResources`],
  ['content-type', 'application/grpc'],
  ['te', 'trailers'],
];

export function frame(type: number, flags: number, streamId: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUIntBE(payload.length, 0, 3);
  header[3] = type;
  header[4] = flags;
  header.writeUInt32BE(streamId, 5);
  return Buffer.concat([header, payload]);
}

/** A string of RFC 7541, 5.2, without Huffman code. */
function literal(text: string): Buffer {
  const bytes = Buffer.from(text);
  const length: number[] = [];
  if (bytes.length < 127) {
    length.push(bytes.length);
  } else {
    length.push(127);
    let rest = bytes.length - 127;
    for (; rest >= 128; rest = Math.floor(rest / 128)) length.push((rest % 128) + 128);
    length.push(rest);
  }
  return Buffer.concat([Buffer.from(length), bytes]);
}

/** RFC 7541, 6.2.2: "Literal Header Field without Indexing — New Name". */
export const headerBlock = (pairs: HeaderPairs): Buffer =>
  Buffer.concat(
    pairs.flatMap(([name, value]) => [Buffer.from([0]), literal(name), literal(value)]),
  );

/** The first entry of the dynamic table (RFC 7541, 2.3.3). */
const FIRST_DYNAMIC = 62;

/** @returns the first block of a connection with these fields, and the same as indices, a byte for each field */
export function indexedBlocks(pairs: HeaderPairs): { first: Buffer; next: Buffer } {
  // RFC 7541, 6.2.1: "Literal Header Field with Incremental Indexing — New Name".
  const literals = pairs.map(([name, value]) => [
    Buffer.from([0x40]),
    literal(name),
    literal(value),
  ]);
  const indices = pairs.map((_, at) => 0x80 | (FIRST_DYNAMIC + pairs.length - 1 - at));
  return { first: Buffer.concat(literals.flat()), next: Buffer.from(indices) };
}

export const headersFrame = (streamId: number, pairs: HeaderPairs = ADS_HEADERS): Buffer =>
  frame(FRAME.headers, FLAG.endHeaders, streamId, headerBlock(pairs));

export const resetFrame = (streamId: number): Buffer =>
  frame(FRAME.resetStream, 0, streamId, Buffer.from([0, 0, 0, 8]));

export class HostileHttp2 {
  readonly frames: Frame[] = [];
  /** The server closed the connection, in order or by a reset. */
  isClosed = false;
  readonly #socket: Socket;
  #unread = Buffer.alloc(0);

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.#read(chunk);
    });
    socket.on('error', () => undefined);
    for (const event of ['end', 'close'] as const) {
      socket.on(event, () => {
        this.isClosed = true;
      });
    }
  }

  /**
   * @param ca PEM of the CA of the server's certificate; default: plaintext
   * @param allowHalfOpen it keeps its side of the connection open when the server ends its own
   */
  static async connect(port: number, ca?: string, allowHalfOpen = false): Promise<HostileHttp2> {
    const options = { port, host: '127.0.0.1', allowHalfOpen };
    const socket =
      ca === undefined ? connect(options) : connectTls({ ...options, ca, ALPNProtocols: ['h2'] });
    socket.setNoDelay();
    await new Promise<void>((resolve, reject) => {
      socket.once(ca === undefined ? 'connect' : 'secureConnect', resolve);
      socket.once('error', reject);
    });
    return new HostileHttp2(socket);
  }

  /** The connection preface, SETTINGS, and the ACK of the server's SETTINGS. */
  greet(initialWindowBytes = 65_535, acknowledges = true): void {
    const setting = Buffer.alloc(6);
    setting.writeUInt16BE(SETTINGS_INITIAL_WINDOW, 0);
    setting.writeUInt32BE(initialWindowBytes, 2);
    this.send(PREFACE, frame(FRAME.settings, 0, 0, setting));
    if (acknowledges) this.send(frame(FRAME.settings, FLAG.ack, 0, Buffer.alloc(0)));
  }

  /** @returns false when the server does not read on. */
  send(...bytes: readonly Buffer[]): boolean {
    return this.#socket.destroyed || this.#socket.write(Buffer.concat(bytes));
  }

  /** The server's frames of one stream. */
  of(streamId: number): readonly Frame[] {
    return this.frames.filter((one) => one.streamId === streamId);
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /** Closes the connection. @returns once that is done */
  async leave(): Promise<void> {
    const closed = once(this.#socket, 'close');
    this.#socket.destroy();
    await closed;
  }

  stopReading(): void {
    this.#socket.pause();
  }

  readOn(): void {
    this.#socket.resume();
  }

  #read(chunk: Buffer): void {
    this.#unread = Buffer.concat([this.#unread, chunk]);
    for (;;) {
      if (this.#unread.length < HEADER_BYTES) return;
      const end = HEADER_BYTES + this.#unread.readUIntBE(0, 3);
      if (this.#unread.length < end) return;
      this.frames.push({
        type: this.#unread[3] ?? 0,
        flags: this.#unread[4] ?? 0,
        streamId: this.#unread.readUInt32BE(5),
        payload: this.#unread.subarray(HEADER_BYTES, end),
      });
      this.#unread = this.#unread.subarray(end);
    }
  }
}
