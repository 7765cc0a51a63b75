/**
 * A well-behaved client of the gateway, and its well-behaved source, on a thread of their own: an attack
 * that keeps the thread of the test busy does not delay them.
 */
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { once } from 'node:events';
import { assignmentBody } from '../interop/peers/siege.js';
import { DeltaClient } from '../support/delta-client.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { pause, until } from '../support/until.js';
import { sslByAddress } from '../support/ssl-by-address.js';

/** The authority of the innocent client's source. */
export const INNOCENT = 'innocent.example.com';

export interface InnocentFigures {
  /** From a change at the source until the client has it, in the order of the changes. */
  readonly latenciesMs: readonly number[];
  /** How the client's stream ended, or undefined while it is open. */
  readonly ended: string | undefined;
}

const NAME = xdstpName(INNOCENT, 'assignment', 'edge/witness');
const CHANGE_TIMEOUT_MS = 30_000;
/** From one change to the next, so that the innocent client itself is not a load. */
const CHANGE_PAUSE_MS = 5;

/** The innocent client, as the test's thread sees it. */
export class Innocent {
  readonly #worker: Worker;
  /** Of its source. */
  readonly port: number;

  private constructor(worker: Worker, port: number) {
    this.#worker = worker;
    this.port = port;
  }

  /** Starts the source. The client subscribes with {@link subscribe}. */
  static async start(): Promise<Innocent> {
    const worker = new Worker(new URL(import.meta.url));
    const [port] = (await once(worker, 'message')) as [number];
    return new Innocent(worker, port);
  }

  /**
   * @param ca PEM of the CA of the gateway's certificate; default: plaintext
   * @returns once the client has its resource from the gateway at this port
   */
  async subscribe(gatewayPort: number, ca?: string): Promise<void> {
    await this.#ask({ subscribeAt: gatewayPort, ca } satisfies Subscribe);
  }

  /** The changes since the last call of this function. The source makes one after the other. */
  async takeFigures(): Promise<InnocentFigures> {
    return (await this.#ask('figures')) as InnocentFigures;
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
  }

  async #ask(question: unknown): Promise<unknown> {
    const answer = once(this.#worker, 'message') as Promise<[unknown]>;
    this.#worker.postMessage(question);
    return (await answer)[0];
  }
}

interface Subscribe {
  readonly subscribeAt: number;
  readonly ca: string | undefined;
}

async function serve(): Promise<void> {
  const source = await ScriptedUpstream.start();
  let client: DeltaClient | undefined;
  let latenciesMs: number[] = [];
  const change = async (to: DeltaClient, salt: number): Promise<void> => {
    const before = to.responses.length;
    const beganMs = performance.now();
    source.put(TYPE_URLS.assignment, NAME, assignmentBody(NAME, salt));
    // The stream of a gateway that the test has killed brings nothing more. Any other end of it is in the figures.
    const isOver = (): boolean => to.responses.length > before || to.status !== undefined;
    await until('the innocent client has the change', isOver, {
      everyMs: 1,
      timeoutMs: CHANGE_TIMEOUT_MS,
    });
    if (to.responses.length > before) latenciesMs.push(performance.now() - beganMs);
  };
  const subscribe = async ({ subscribeAt: port, ca }: Subscribe): Promise<void> => {
    client = new DeltaClient({
      port,
      ...(ca !== undefined && { credentials: sslByAddress(Buffer.from(ca)) }),
    });
    client.subscribe(TYPE_URLS.assignment, [NAME]);
    await change(client, 1);
    latenciesMs = [];
  };
  const keepChanging = async (to: DeltaClient): Promise<void> => {
    for (let salt = 2; to.status === undefined; salt++) {
      await change(to, salt);
      await pause(CHANGE_PAUSE_MS);
    }
  };
  parentPort!.on('message', (question: 'figures' | Subscribe) => {
    if (question === 'figures') {
      const ended = client?.status && `${client.status.code} ${client.status.details}`;
      parentPort!.postMessage({ latenciesMs, ended } satisfies InnocentFigures);
      latenciesMs = [];
      return;
    }
    void subscribe(question).then(() => {
      parentPort!.postMessage('subscribed');
      return keepChanging(client!);
    });
  });
  parentPort!.postMessage(source.port);
}

if (!isMainThread && parentPort) await serve();
