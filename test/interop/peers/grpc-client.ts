import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { until } from '../../support/until.js';
import { Child, removeScratch, scratchDirectory } from './child.js';
import { javaCommand, peerPath, requirePeer } from './provisioned.js';
import type { Security } from './security.js';

/**
 * Applications that use an unmodified gRPC library and its own xDS client: `go` is grpc-go, `core`
 * is the C core through Python, `js` is @grpc/grpc-js-xds, `java` is grpc-java.
 *
 * All of them take the same arguments and print the same lines of JSON. They call
 * `grpc.health.v1.Health/Check`, one call after the other for each target, over channels with their
 * defaults: no "wait for ready", no retries. Backends send their name in the header `answered-by`.
 *
 * - `{"target", "settled": <name>}` when the same backend gave 20 answers in a row
 * - `{"target", "error": <status and message>}` for each call that failed
 * - `{"totals": {<target>: {"failed": <count>, "answers": {<name>: <count>}}}}` after SIGTERM
 */
export const grpcLanguages = ['go', 'core', 'js', 'java'] as const;
export type GrpcLanguage = (typeof grpcLanguages)[number];

export interface GrpcClientOptions {
  readonly language: GrpcLanguage;
  readonly targets: readonly string[];
  /** The content of the file in `GRPC_XDS_BOOTSTRAP`, as JSON. */
  readonly bootstrap: unknown;
  /** Time between the starts of two calls of one target. Default 10 ms. */
  readonly everyMs?: number;
}

export interface GrpcTargetTotals {
  readonly failed: number;
  /** Calls by the backend that answered. */
  readonly answers: Readonly<Record<string, number>>;
}

export interface GrpcFailure {
  readonly target: string;
  readonly error: string;
}

type Line =
  | { readonly target: string; readonly settled: string }
  | GrpcFailure
  | { readonly totals: Readonly<Record<string, GrpcTargetTotals>> };

const jsProgram = fileURLToPath(new URL('grpc-js-client.js', import.meta.url));

const commands: Readonly<Record<GrpcLanguage, () => readonly [string, ...string[]]>> = {
  go: () => [peerPath('grpc-go-client')],
  core: () => ['python3', peerPath('grpc-python-client')],
  js: () => [process.execPath, jsProgram],
  java: () => javaCommand('grpc-java-client'),
};

const peers = {
  go: 'grpc-go-client',
  core: 'grpc-python-client',
  java: 'grpc-java-client',
} as const;

/**
 * grpc-go 1.85 lets calls choose a cluster that is new to the channel before its balancer knows it
 * (`updateResolverStateAndUnlock`), so a call may fail in between, whatever caused the route
 * change.
 */
const ownFault = 'unknown cluster selected for RPC';

/** For tap's `skip`: why there is no client of this language, or `false`. */
export function skipWithoutGrpcClient(language: GrpcLanguage): string | false {
  if (language === 'js') return false;
  const peer = requirePeer(peers[language]);
  return peer.present ? false : peer.reason;
}

/**
 * The bootstrap of a gRPC client for the gateway. Every authority in its names must be listed.
 *
 * @param more Members that are added, or override those here.
 * @param tls Files for mutual TLS, which grpc-js does not support.
 */
export function grpcBootstrap(
  xdsPort: number,
  authorities: readonly string[],
  more: Readonly<Record<string, unknown>> = {},
  tls?: Security['client'],
): unknown {
  const files = tls && {
    ca_certificate_file: tls.ca,
    certificate_file: tls.cert,
    private_key_file: tls.key,
  };
  const creds = files ? { type: 'tls', config: files } : { type: 'insecure' };
  return {
    xds_servers: [{ server_uri: `dns:///127.0.0.1:${xdsPort}`, channel_creds: [creds] }],
    // grpc-js refuses a bootstrap without them.
    node: { id: 'grpc-client', locality: {} },
    authorities: Object.fromEntries(authorities.map((authority) => [authority, {}])),
    ...more,
  };
}

/** One such application as a process of its own. */
export class GrpcClient {
  readonly language: GrpcLanguage;
  readonly #directory: string;
  readonly #child: Child;
  readonly #settled = new Map<string, string>();
  readonly #failures: GrpcFailure[] = [];
  #ownFaults = 0;
  #totals: Readonly<Record<string, GrpcTargetTotals>> | undefined;

  private constructor(language: GrpcLanguage, directory: string, child: Child) {
    this.language = language;
    this.#directory = directory;
    this.#child = child;
    child.eachLine((text) => {
      if (text.startsWith('{')) this.#take(JSON.parse(text) as Line);
    });
  }

  static async start(options: GrpcClientOptions): Promise<GrpcClient> {
    const { language, targets, bootstrap, everyMs = 10 } = options;
    const directory = await scratchDirectory(`grpc-${language}`);
    const bootstrapFile = join(directory, 'bootstrap.json');
    await writeFile(bootstrapFile, JSON.stringify(bootstrap, undefined, 2));
    const [command, ...program] = commands[language]();
    const child = new Child({
      name: `grpc-${language}`,
      command,
      args: [...program, String(everyMs), ...targets],
      environment: { GRPC_XDS_BOOTSTRAP: bootstrapFile },
      directory,
    });
    return new GrpcClient(language, directory, child);
  }

  #take(line: Line): void {
    if ('totals' in line) this.#totals = line.totals;
    else if ('error' in line && line.error.includes(ownFault)) this.#ownFaults += 1;
    else if ('error' in line) this.#failures.push(line);
    else this.#settled.set(line.target, line.settled);
  }

  /** Calls that have failed for a reason that no control plane can prevent. */
  get ownFaults(): number {
    return this.#ownFaults;
  }

  /** All other calls that have failed. */
  get failures(): readonly GrpcFailure[] {
    return this.#failures;
  }

  /**
   * Waits until the backend `answer` answers calls of this target: 20 in a row, and no other since.
   */
  async settles(target: string, answer: string, timeoutMs = 20_000): Promise<void> {
    const isAnswer = (): boolean => this.#settled.get(target) === answer;
    const what = `${this.language}: "${answer}" answers ${target}`;
    await this.#child.ready(until(what, isAnswer, { timeoutMs: timeoutMs - 100 }), timeoutMs);
  }

  logs(): string {
    return this.#child.logs();
  }

  /** grpc-go only: like {@link totals}, but the channels stay open and report their loads. */
  async pause(): Promise<Readonly<Record<string, GrpcTargetTotals>>> {
    this.#child.signal('SIGUSR1');
    return until(`${this.language} tells its totals`, () => this.#totals, { timeoutMs: 7_000 });
  }

  /** Stops new calls; returns the outcome of all calls, by target. */
  async totals(): Promise<Readonly<Record<string, GrpcTargetTotals>>> {
    await this.#child.stop();
    return until(`${this.language} tells its totals`, () => this.#totals, { timeoutMs: 7_000 });
  }

  async stop(): Promise<void> {
    await this.#child.stop();
    await removeScratch(this.#directory);
  }
}
