/** Ports for servers of tests that listen again where they listened before. */
import { createServer } from 'node:net';

/** Below the ports that Linux (32768) and other systems (49152) choose for listeners and for outgoing connections. */
const LOWEST_PORT = 20_000;
const PORTS_OF_A_JOB = 3_000;
const JOBS = 4;

// tap numbers the test files that run at the same time. So two of them never choose the same port.
const lowestOfJob = LOWEST_PORT + (Number(process.env['TAP_JOB_ID'] ?? 0) % JOBS) * PORTS_OF_A_JOB;
let chosen = Math.floor(Math.random() * PORTS_OF_A_JOB);

/**
 * A loopback port that is free, and stays free while its server is down: neither the system nor another test chooses
 * it meanwhile. A port that the system chose (port 0) may be that of an outgoing connection when its server returns.
 */
export async function freePort(): Promise<number> {
  chosen = (chosen + 1) % PORTS_OF_A_JOB;
  const port = lowestOfJob + chosen;
  const server = createServer();
  const isFree = await new Promise<boolean>((resolve) => {
    server.once('error', () => {
      resolve(false);
    });
    server.listen(port, '127.0.0.1', () => {
      resolve(true);
    });
  });
  if (!isFree) return freePort();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
