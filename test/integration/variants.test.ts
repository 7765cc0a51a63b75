/**
 * Goal: variants of resources (TP2) reach clients of both flavours, also through two gateways, as their source has them.
 * Method: a server of variants on a real port, a gateway behind it, and a gateway behind that one.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as grpc from '@grpc/grpc-js';
import t, { type Test } from 'tap';
import { startServer } from '../../gateway/demo/demo-server.js';
import {
  decodeDeltaResponse,
  encodeDeltaAck,
  encodeDeltaRequest,
} from '../../protos/delta-codec.js';
import type { VariantName, WireResource } from '../../protos/discovery.js';
import { readConstraints } from '../../protos/parameter-constraints.js';
import { decodeSotwResponse } from '../../protos/sotw-codec.js';
import { openAdsCall } from '../support/ads-call.js';
import { bytesMethod, DELTA_ADS_PATH } from '../support/bytes-method.js';
import { encodeSotwRequest, onlyFor } from '../support/discovery-messages.js';
import { thing, THING } from '../support/federation-driver.js';
import { request } from '../support/model-client.js';
import { until } from '../support/until.js';
import { VariantServer, type Variant } from '../support/variant-server.js';

t.setTimeout(60_000);

const N = thing('mesh.test', 'g/1');
const PROD = { env: 'prod' };

const variant = (body: string, env?: string): Variant => ({
  version: body,
  body,
  ...(env === undefined ? {} : { constraints: onlyFor('env', env) }),
});

async function startSource(t: Test) {
  const variants = new VariantServer();
  const server = new grpc.Server();
  server.addService(
    { ads: bytesMethod(DELTA_ADS_PATH) },
    {
      ads: (call: grpc.ServerDuplexStream<Buffer, Buffer>) => {
        const stream = variants.open((bytes) => call.write(Buffer.from(bytes)));
        call.on('data', (bytes: Buffer) => {
          stream.receive(bytes);
        });
        call.on('error', () => undefined);
      },
    },
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) => {
      if (error) reject(error);
      else resolve(bound);
    });
  });
  t.teardown(() => {
    server.forceShutdown();
  });
  return { variants, port };
}

async function startGateway(t: Test, sourcePort: number): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-variants-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const map = join(folder, 'map.yaml');
  writeFileSync(
    map,
    `sources:
  cloud: { target: "127.0.0.1:${sourcePort}", insecure: true, dynamic_parameters: forward }
authorities:
  mesh.test: { sources: [cloud] }
`,
  );
  const { gateway, port } = await startServer(map, 0, () => undefined);
  t.teardown(() => gateway.stop());
  return port;
}

const textOf = (constraints: Uint8Array | undefined): string => {
  const read = readConstraints(constraints ?? new Uint8Array());
  return typeof read === 'object' ? `(${read.text})` : '()';
};

/** What a client holds, by constraints: `(env=prod) P`. */
class Held {
  readonly #bodies = new Map<string, string>();

  put({ constraints, body }: WireResource): void {
    this.#bodies.set(textOf(constraints), Buffer.from(body ?? []).toString());
  }

  remove({ constraints }: VariantName): void {
    this.#bodies.delete(textOf(constraints));
  }

  get text(): string {
    return [...this.#bodies]
      .map((one) => one.join(' '))
      .sort()
      .join(', ');
  }
}

function deltaClient(t: Test, port: number, parameters: readonly string[]): Held {
  const held = new Held();
  const call = openAdsCall({
    port,
    method: 'DeltaAggregatedResources',
    onMessage: (bytes) => {
      const decoded = decodeDeltaResponse(bytes, 100);
      if (!decoded.ok) throw new Error(decoded.reason);
      const { resources, removed, removedVariants = [], nonce } = decoded.message;
      for (const name of removed) held.remove({ name, constraints: new Uint8Array() });
      for (const one of removedVariants) held.remove(one);
      for (const one of resources) held.put(one);
      call.write(encodeDeltaAck(THING, nonce));
    },
  });
  t.teardown(() => {
    call.close();
  });
  const subscribe = parameters.map((one) => ({ name: N, parameters: one }));
  call.write(
    encodeDeltaRequest(request({ typeUrl: THING, locators: { subscribe, unsubscribe: [] } })),
  );
  return held;
}

function sotwClient(t: Test, port: number): Held {
  const held = new Held();
  const locators = [{ name: N, dynamic_parameters: PROD }];
  const ask = (version_info: string, response_nonce: string): void => {
    const fields = { type_url: THING, resource_locators: locators, version_info, response_nonce };
    call.write(encodeSotwRequest({ ...fields, node: { id: 'sotw' } }));
  };
  const call = openAdsCall({
    port,
    method: 'StreamAggregatedResources',
    onMessage: (bytes) => {
      const decoded = decodeSotwResponse(bytes, 100);
      if (!decoded.ok) throw new Error(decoded.reason);
      for (const one of decoded.message.resources) held.put(one);
      ask(decoded.message.versionInfo, decoded.message.nonce);
    },
  });
  t.teardown(() => {
    call.close();
  });
  ask('', '');
  return held;
}

t.test('variants reach clients through one gateway and through two (TP2)', async (t) => {
  const { variants, port } = await startSource(t);
  variants.setSilently(N, [variant('P1', 'prod'), variant('T1', 'test')]);
  const near = await startGateway(t, port);
  const far = await startGateway(t, near);
  const clients = [near, far].flatMap((at) => [
    deltaClient(t, at, ['env=prod']),
    deltaClient(t, at, ['env=prod', 'env=test']),
    deltaClient(t, at, ['env=test&zone=a', 'env=test&zone=b']),
  ]);
  const sotw = [near, far].map((at) => sotwClient(t, at));
  const said = (held: readonly Held[]): readonly string[] => held.map(({ text }) => text);
  const all = async (expected: readonly string[], sotwExpected: string): Promise<void> => {
    const want = [...expected, ...expected, sotwExpected, sotwExpected];
    const isThere = (): boolean => said([...clients, ...sotw]).join('|') === want.join('|');
    await until(`all hold ${expected.join(' | ')}`, isThere).catch((error: unknown) => {
      t.strictSame(said([...clients, ...sotw]), want);
      throw error;
    });
  };
  await all(['(env=prod) P1', '(env=prod) P1, (env=test) T1', '(env=test) T1'], '(env=prod) P1');
  variants.setVariants(THING, N, [variant('P2', 'prod'), variant('T1', 'test')]);
  await all(['(env=prod) P2', '(env=prod) P2, (env=test) T1', '(env=test) T1'], '(env=prod) P2');
  // The variants merge, and split again. A client of the state of the world keeps the last content of each name.
  variants.setVariants(THING, N, [variant('U')]);
  await all(['() U', '() U', '() U'], '() U, (env=prod) P2');
  variants.setVariants(THING, N, [variant('P3', 'prod')]);
  await all(['(env=prod) P3', '(env=prod) P3', ''], '() U, (env=prod) P3');
  for (const { acks } of variants.streams) {
    t.strictSame(
      acks.filter(({ error }) => error !== undefined),
      [],
    );
  }
  t.equal(variants.streams.length, 1, 'one stream for all parameters (invariant 8)');
});
