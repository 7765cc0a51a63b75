/**
 * An application that uses the xDS client of @grpc/grpc-js-xds: it calls each target repeatedly,
 * and prints which backend answers.
 *
 *   GRPC_XDS_BOOTSTRAP=<file> node grpc-js-client.js <milliseconds between calls> <target>…
 *
 * Its output and its calls are described in grpc-client.ts.
 */
import { once } from 'node:events';

import * as grpc from '@grpc/grpc-js';
import { register } from '@grpc/grpc-js-xds';

const method = '/grpc.health.v1.Health/Check';
const settledAfter = 20;
const callTimeoutMs = 5_000;

interface Totals {
  failed: number;
  readonly answers: Record<string, number>;
}

const identity = (bytes: Buffer): Buffer => bytes;
/** Every field of a health check has its default: no bytes are a valid request and response. */
const nothing = Buffer.alloc(0);

function tell(line: unknown): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** The name of the backend, or the error as text. */
function ask(client: grpc.Client): Promise<{ answer: string } | { error: string }> {
  return new Promise((resolve) => {
    let answer = '';
    const deadline = Date.now() + callTimeoutMs;
    client
      .makeUnaryRequest(method, identity, identity, nothing, { deadline }, (error) => {
        if (error === null) resolve({ answer });
        else resolve({ error: `${grpc.status[error.code]}: ${error.details}` });
      })
      .on('metadata', (metadata) => {
        answer = String(metadata.get('answered-by')[0] ?? '');
      });
  });
}

/** Calls the target until `stop` is aborted. */
async function call(
  target: string,
  everyMs: number,
  totals: Totals,
  stop: AbortSignal,
): Promise<void> {
  const client = new grpc.Client(target, grpc.credentials.createInsecure());
  // A call without a response may have seconds left.
  const stopped = once(stop, 'abort').then(() => undefined);
  let [last, streak] = ['', 0];
  while (!stop.aborted) {
    const due = new Promise((resolve) => setTimeout(resolve, everyMs));
    const outcome = await Promise.race([ask(client), stopped]);
    if (outcome === undefined) break;
    if ('error' in outcome) {
      totals.failed += 1;
      streak = 0;
      tell({ target, error: outcome.error });
    } else {
      const { answer } = outcome;
      totals.answers[answer] = (totals.answers[answer] ?? 0) + 1;
      streak = answer === last ? streak + 1 : 1;
      last = answer;
      if (streak === settledAfter) tell({ target, settled: answer });
    }
    await due;
  }
  client.close();
}

async function main([everyMs, ...targets]: readonly string[]): Promise<void> {
  register();
  const stopping = new AbortController();
  process.on('SIGTERM', () => {
    stopping.abort();
  });
  // The parent holds our stdin; when the parent dies, in any way, this process ends too.
  process.stdin.resume().on('end', () => process.exit(0));
  const totals = Object.fromEntries(
    targets.map((target): [string, Totals] => [target, { failed: 0, answers: {} }]),
  );
  await Promise.all(
    Object.entries(totals).map(([target, of]) =>
      call(target, Number(everyMs), of, stopping.signal),
    ),
  );
  process.stdout.write(`${JSON.stringify({ totals })}\n`, () => process.exit(0));
}

await main(process.argv.slice(2));
