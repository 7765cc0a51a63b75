/**
 * A management server that tells proxies apart: it knows the owner of a stream by its headers or its client
 * certificate, refuses strangers, and serves each owner one cluster of its own.
 */
import * as grpc from '@grpc/grpc-js';
import protobuf from 'protobufjs/minimal.js';
import { decodeDeltaRequest } from '../../protos/delta-codec.js';
import { bytesMethod, DELTA_ADS_PATH } from './bytes-method.js';
import { encodeResponse } from './discovery-messages.js';
import { freePort } from './free-port.js';
import { TYPE_URLS } from './mesh.js';

const SERVICE: grpc.ServiceDefinition = { ads: bytesMethod(DELTA_ADS_PATH) };

type Call = grpc.ServerDuplexStream<Buffer, Buffer>;

/** A stream as the server saw it. */
export interface SeenStream {
  /** All values of a header. */
  header(key: string): readonly string[];
  /** Common name of the client certificate; empty: none. */
  readonly certificateName: string;
  /** The Nodes of its requests, encoded. */
  readonly nodes: readonly Uint8Array[];
  readonly owner: string;
  readonly isOpen: boolean;
}

export interface IdentityUpstreamOptions {
  /** @returns the owner of the proxy; undefined: the server refuses the stream. */
  readonly ownerOf: (stream: Omit<SeenStream, 'owner'>) => string | undefined;
  /** Default: plaintext. */
  readonly credentials?: grpc.ServerCredentials;
  /** Default: a free one. */
  readonly port?: number;
}

interface Open extends SeenStream {
  readonly nodes: Uint8Array[];
  readonly call: Call;
  isOpen: boolean;
  isAsked: boolean;
}

export class IdentityUpstream {
  readonly streams: SeenStream[] = [];
  /** Number of refused streams. Each refusal repeats the token, as a careless server might. */
  refusals = 0;
  readonly #server = new grpc.Server();
  readonly #open = new Set<Open>();
  readonly #revisions = new Map<string, number>();
  readonly #ownerOf: IdentityUpstreamOptions['ownerOf'];
  #port = 0;
  #nonces = 0;

  private constructor({ ownerOf }: IdentityUpstreamOptions) {
    this.#ownerOf = ownerOf;
    this.#server.addService(SERVICE, {
      ads: (call: Call) => {
        this.#accept(call);
      },
    });
  }

  static async start(options: IdentityUpstreamOptions): Promise<IdentityUpstream> {
    const made = new IdentityUpstream(options);
    const credentials = options.credentials ?? grpc.ServerCredentials.createInsecure();
    const port = options.port ?? (await freePort());
    made.#port = await new Promise((resolve, reject) => {
      made.#server.bindAsync(`127.0.0.1:${port}`, credentials, (error, bound) => {
        if (error) reject(error);
        else resolve(bound);
      });
    });
    return made;
  }

  get port(): number {
    return this.#port;
  }

  openStreams(owner: string): readonly SeenStream[] {
    return [...this.#open].filter((stream) => stream.owner === owner && stream.isOpen);
  }

  /** Sends every proxy of an owner new content. */
  update(owner: string): void {
    this.#revisions.set(owner, this.#revisionOf(owner) + 1);
    for (const stream of this.#open)
      if (stream.owner === owner && stream.isAsked) this.#send(stream);
  }

  stop(): void {
    this.#server.forceShutdown();
  }

  #revisionOf(owner: string): number {
    return this.#revisions.get(owner) ?? 1;
  }

  #accept(call: Call): void {
    const seen = {
      header: (key: string) => call.metadata.get(key).map(String),
      certificateName: String(call.getAuthContext().sslPeerCertificate?.subject.CN ?? ''),
      nodes: [] as Uint8Array[],
      isOpen: true,
    };
    const owner = this.#ownerOf(seen);
    if (owner === undefined) {
      this.refusals++;
      const given = call.metadata.get('authorization').join(' ');
      call.emit('error', {
        code: grpc.status.UNAUTHENTICATED,
        details: `no proxy has the token "${given}"`,
      });
      return;
    }
    const stream: Open = Object.assign(seen, { owner, call, isAsked: false });
    this.streams.push(stream);
    this.#open.add(stream);
    const gone = (): void => {
      stream.isOpen = false;
      this.#open.delete(stream);
    };
    call.on('error', gone);
    call.on('cancelled', gone);
    call.on('end', () => {
      gone();
      call.end();
    });
    call.on('data', (bytes: Buffer) => {
      this.#take(stream, bytes);
    });
  }

  #take(stream: Open, bytes: Buffer): void {
    const decoded = decodeDeltaRequest(bytes, 100);
    if (!decoded.ok) throw new Error(decoded.reason);
    const { node, typeUrl, responseNonce } = decoded.message;
    if (node) stream.nodes.push(Buffer.from(node));
    const isFirst = typeUrl === TYPE_URLS.cluster && !stream.isAsked && responseNonce === '';
    if (!isFirst) return;
    stream.isAsked = true;
    this.#send(stream);
  }

  #send({ call, owner }: Open): void {
    const resource = {
      name: 'web',
      version: `v${this.#revisionOf(owner)}`,
      body: clusterOf(owner, this.#revisionOf(owner)),
    };
    const nonce = `n${++this.#nonces}`;
    call.write(
      Buffer.from(encodeResponse({ typeUrl: TYPE_URLS.cluster, nonce, resources: [resource] })),
    );
  }
}

/** A Cluster `web` with `alt_stat_name` (field 28) `<owner>/<revision>`. */
function clusterOf(owner: string, revision: number): Uint8Array {
  const writer = protobuf.Writer.create();
  return writer
    .uint32(0x0a)
    .string('web')
    .uint32((28 << 3) | 2)
    .string(`${owner}/${revision}`)
    .finish();
}

/** The owner and revision in a cluster of this server. */
export function ownerIn(body: Uint8Array | undefined): string | undefined {
  return /[a-z0-9-]+\/\d+$/.exec(Buffer.from(body ?? []).toString('latin1'))?.[0];
}
