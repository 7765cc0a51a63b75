/**
 * A bare grpc-js server as a process of its own, to compare the gateway with: it answers a subscription with prepared
 * bytes. It knows no names, versions or ACKs.
 *
 * Its arguments: the paths of its certificate and its key, or two empty ones; then, for each type, the type URL and the
 * response in base64. It prints `{"port":…}` when it is ready.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import type { Test } from 'tap';
import { Child, removeScratch, scratchDirectory } from '../interop/peers/child.js';
import { bytesMethod, DELTA_ADS_PATH } from '../support/bytes-method.js';
import type { ServerTls } from './arena.js';

export interface BareServer {
  readonly port: number;
  /** CPU time of its process so far, in seconds. */
  cpuSeconds(): Promise<number>;
  stop(): Promise<void>;
}

const FILE = fileURLToPath(import.meta.url);

/**
 * @param responses type URL → the encoded response to a subscription of this type
 * @param tls default: plaintext
 */
export async function startBareServer(
  t: Test,
  responses: ReadonlyMap<string, Buffer>,
  tls?: Pick<ServerTls, 'cert' | 'key'>,
): Promise<BareServer> {
  const directory = await scratchDirectory('bare-server');
  const prepared = [...responses].map(([typeUrl, response]) => [
    typeUrl,
    response.toString('base64'),
  ]);
  const args = [tls?.cert ?? '', tls?.key ?? '', ...prepared.flat()];
  const child = new Child({
    name: 'bare server',
    // As the gateway is started: without the hooks of the test runner.
    command: 'env',
    args: ['--unset=NODE_OPTIONS', process.execPath, FILE, ...args],
    directory,
    answers: true,
  });
  const stop = async (): Promise<void> => {
    await child.stop();
    await removeScratch(directory);
  };
  t.teardown(stop);
  const { port } = await child.line((line) => JSON.parse(line) as { readonly port: number });
  return { port, stop, cpuSeconds: async () => (await child.ask('cpu')) as number };
}

type Stream = grpc.ServerDuplexStream<Buffer, Buffer>;

async function serve([cert, key, ...args]: readonly string[]): Promise<void> {
  const responses = args.flatMap((typeUrl, at) =>
    at % 2 === 0 ? [{ typeUrl, response: Buffer.from(args[at + 1]!, 'base64') }] : [],
  );
  const credentials = cert
    ? grpc.ServerCredentials.createSsl(null, [
        { cert_chain: readFileSync(cert), private_key: readFileSync(key!) },
      ])
    : grpc.ServerCredentials.createInsecure();
  const server = new grpc.Server();
  server.addService(
    { method: bytesMethod(DELTA_ADS_PATH) },
    {
      method: (stream: Stream) => {
        const unanswered = new Set(responses);
        stream.on('error', () => undefined);
        stream.on('end', () => {
          stream.end();
        });
        stream.on('data', (request: Buffer) => {
          for (const each of unanswered) {
            if (!request.includes(each.typeUrl)) continue;
            unanswered.delete(each);
            stream.write(each.response);
          }
        });
      },
    },
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', credentials, (error, bound) => {
      if (error) reject(error);
      else resolve(bound);
    });
  });
  process.on('message', () => {
    const { user, system } = process.cpuUsage();
    process.send!((user + system) / 1_000_000);
  });
  process.stdout.write(`${JSON.stringify({ port })}\n`);
  await once(process, 'disconnect');
  process.exit();
}

if (process.argv[1] === FILE) await serve(process.argv.slice(2));
