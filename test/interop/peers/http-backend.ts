import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface HttpBackend {
  readonly name: string;
  readonly port: number;
  /** Requests so far. */
  requests(): number;
  stop(): Promise<void>;
}

/** A server on loopback that answers every request with its own name. */
export async function startHttpBackend(name: string): Promise<HttpBackend> {
  let requests = 0;
  const server = createServer((_request, response) => {
    requests += 1;
    response.end(name);
  });
  // The proxy must close idle connections: otherwise it may send into one that this server closes.
  server.keepAliveTimeout = 0;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    name,
    port: (server.address() as AddressInfo).port,
    requests: () => requests,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve();
        });
        server.closeAllConnections();
      }),
  };
}
