/** Clients of the four gRPC variants without an Envoy: they keep what they were sent, and what was removed. */
import type { Test } from 'tap';

import { ADS, discoveryServiceOf } from '../../../protos/discovery-services.js';
import { DeltaClient } from '../../support/delta-client.js';
import { TYPE_URLS } from '../../support/mesh.js';
import { SotwClient } from '../../support/sotw-client.js';
import type { EnvoyOptions } from './envoy.js';

/** The subscriptions of one client to resources by their names. */
export interface NamesClient {
  /** The latest body of a resource; undefined: none came, or it was removed. */
  body(typeUrl: string, name: string): Buffer | undefined;
  /** Names that were removed. */
  readonly removed: ReadonlySet<string>;
}

type Names = Readonly<Record<string, readonly string[]>>;

/** @param names by type URL */
export function startNamesClient(
  t: Test,
  port: number,
  { apiType, over }: Pick<EnvoyOptions, 'apiType' | 'over'>,
  names: Names,
): NamesClient {
  const isDelta = apiType === 'DELTA_GRPC';
  const clients = new Map<string, StreamClient>();
  for (const [typeUrl, wanted] of Object.entries(names)) {
    const service = over === 'per-type' ? discoveryServiceOf(typeUrl)! : ADS;
    const path = `/${service.service}/${isDelta ? service.methods.delta : service.methods.stream}`;
    const client = clients.get(path) ?? (isDelta ? deltaOn(port, path) : sotwOn(port, path));
    if (!clients.has(path))
      t.teardown(() => {
        client.close();
      });
    clients.set(path, client);
    client.subscribe(typeUrl, wanted);
  }
  const all = [...clients.values()];
  return {
    body: (typeUrl, name) => all.map((one) => one.body(typeUrl, name)).find((body) => body),
    get removed() {
      return new Set(all.flatMap((one) => one.removed()));
    },
  };
}

interface StreamClient {
  subscribe(typeUrl: string, names: readonly string[]): void;
  body(typeUrl: string, name: string): Buffer | undefined;
  removed(): readonly string[];
  close(): void;
}

function deltaOn(port: number, path: string): StreamClient {
  const client = new DeltaClient({ port, path });
  const types = new Set<string>();
  return {
    subscribe(typeUrl, names) {
      types.add(typeUrl);
      client.subscribe(typeUrl, names);
    },
    body(typeUrl, name) {
      const body = client.content(typeUrl).get(name);
      return body && Buffer.from(body);
    },
    removed: () => [...types].flatMap((typeUrl) => client.removals(typeUrl)),
    close() {
      client.close();
    },
  };
}

/** A resource that was in a response with all clusters, and is not in a later one, was removed. */
function sotwOn(port: number, path: string): StreamClient {
  const client = new SotwClient({ port, path });
  const wanted = new Map<string, readonly string[]>();
  const bodiesOf = (typeUrl: string, name: string): readonly (Buffer | undefined)[] =>
    client.responses
      .filter((response) => response.typeUrl === typeUrl)
      .map(({ resources }) => resources.find(({ body }) => body.includes(name))?.body);
  return {
    subscribe(typeUrl, names) {
      wanted.set(typeUrl, names);
      client.subscribe(typeUrl, names);
    },
    body(typeUrl, name) {
      const bodies = bodiesOf(typeUrl, name);
      return typeUrl === TYPE_URLS.cluster ? bodies.at(-1) : bodies.findLast((body) => body);
    },
    removed() {
      const names = wanted.get(TYPE_URLS.cluster) ?? [];
      return names.filter((name) => {
        const bodies = bodiesOf(TYPE_URLS.cluster, name);
        const firstAt = bodies.findIndex((body) => body !== undefined);
        return firstAt >= 0 && bodies.slice(firstAt).includes(undefined);
      });
    },
    close() {
      client.close();
    },
  };
}
