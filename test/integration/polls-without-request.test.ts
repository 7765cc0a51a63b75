/**
 * Goal: Fetch and REST calls whose request does not come are bounded (docs/SECURITY.md, "Quotas").
 * Method: a gateway in this process with a small quota, and bare frames on sockets.
 */
import t from 'tap';
import { startDirectoryGateway } from '../support/directory-gateway.js';
import {
  ADS_HEADERS,
  FLAG,
  frame,
  FRAME,
  headersFrame,
  HostileHttp2,
} from '../support/hostile-http2.js';
import { until } from '../support/until.js';

const CALLS = 50;
/** 80 % of the quota of 1 MiB is one peer's share: 12 calls of 64 KiB, and the last one may exceed it. */
const REFUSED = CALLS - 13;

const callHeaders = (path: string, contentType: string) =>
  ADS_HEADERS.map(([name, value]): readonly [string, string] => [
    name,
    { ':path': path, 'content-type': contentType }[name] ?? value,
  ]);

for (const [what, headers] of [
  [
    'Fetch',
    callHeaders(
      '/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters',
      'application/grpc',
    ),
  ],
  [
    'REST',
    [...callHeaders('/v3/discovery:clusters', 'application/json'), ['content-length', '10']],
  ],
] as const) {
  t.test(
    `${what}: calls whose request does not come count for their peer, and further ones are refused until they end`,
    async (t) => {
      const { port } = await startDirectoryGateway(t, {
        argv: ['--max-buffered', '1MiB'],
        sources: { files: { target: '127.0.0.1:1', insecure: true } },
      });
      /** @returns how many of 50 calls are refused */
      const refusedCalls = async (): Promise<number> => {
        const hostile = await HostileHttp2.connect(port);
        t.teardown(() => {
          hostile.destroy();
        });
        const count = (wanted: number): number =>
          hostile.frames.filter(({ type }) => type === wanted).length;
        hostile.greet();
        hostile.send(
          ...Array.from({ length: CALLS }, (_, at) => headersFrame(1 + 2 * at, headers)),
        );
        await until('some are refused', () => count(FRAME.headers) >= REFUSED);
        // A refusal of one more would come before the answer.
        hostile.send(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
        await until('the PING is answered', () =>
          hostile.frames.some(({ type, flags }) => type === FRAME.ping && flags === FLAG.ack),
        );
        const refused = count(FRAME.headers);
        await hostile.leave();
        return refused;
      };
      t.equal(await refusedCalls(), REFUSED);
      await until('as many are open again', async () => (await refusedCalls()) === REFUSED);
    },
  );
}
