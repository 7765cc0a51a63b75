/**
 * Goal: `/config_dump` has the form of `envoy.admin.v3.ConfigDump`, each content once, and no secrets.
 * Method: caches of the test, and Envoy's descriptors as the reader.
 */
import { Writable } from 'node:stream';
import { fromJson, type JsonObject } from '@bufbuild/protobuf';
import t from 'tap';
import { configDump, dumpOf } from '../../../../gateway/admin/config-dump.js';
import type { AdminContext, AdminRequest } from '../../../../gateway/admin/reply.js';
import { LOG_START } from '../../../../gateway/core/cache/change-log.js';
import { envoyRegistry } from '../../../../protos/envoy-registry.js';
import { resourceFromJson } from '../../../../protos/json-resources.js';
import { encodeResourceField } from '../../../../protos/resource-field.js';
import {
  oldStyleName,
  parseResourceName,
  type ResourceName,
} from '../../../../protos/resource-name.js';
import { until } from '../../../support/until.js';
import { CDS, cds, ECDS, EDS, LDS, RDS, SDS } from '../../../support/mesh-names.js';

const SRDS = 'type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration';
type Cache = Parameters<typeof dumpOf>[0];

function projection(typeUrl: string, name: ResourceName, version: string, content: object) {
  const read = resourceFromJson({ '@type': typeUrl, ...content });
  if (!read.ok) throw new Error(read.message);
  const field = encodeResourceField(name.key, version, typeUrl, read.body);
  return { name, typeUrl, version, field, edsKey: undefined };
}
type Shown = ReturnType<typeof projection>;

const urn = (text: string): ResourceName => {
  const parsed = parseResourceName(text);
  if (!parsed.ok) throw new Error(text);
  return parsed.value;
};

function cacheOf(names: readonly Shown[], members: readonly Shown[] = []): Cache {
  const entries = names.map((each) => ({
    typeUrl: each.typeUrl,
    state: { kind: 'present', projection: each },
  }));
  const globs = members.map((each) => ({
    typeUrl: each.typeUrl,
    collection: {
      members: {
        since: (seq: number) => {
          t.equal(seq, LOG_START);
          return [{ projection: each }];
        },
      },
    },
  }));
  const waiting = { typeUrl: CDS, state: { kind: 'waiting' } };
  return { names: () => [waiting, ...entries], globs: () => globs } as unknown as Cache;
}

type Config = JsonObject & { readonly '@type': string };

async function textOf(cache: Cache): Promise<string> {
  let text = '';
  for await (const piece of dumpOf(cache)) text += piece;
  return text;
}

const parse = async (cache: Cache): Promise<readonly Config[]> =>
  (JSON.parse(await textOf(cache)) as { configs: Config[] }).configs;

const NAME = oldStyleName('', 'x');
const ALL: readonly Shown[] = [
  projection(CDS, NAME, 'v1', { name: 'x' }),
  projection(EDS, NAME, 'v2', { cluster_name: 'x' }),
  projection(LDS, NAME, 'v3', { name: 'x' }),
  projection(SRDS, NAME, 'v4', { name: 'x' }),
  projection(RDS, NAME, 'v5', { name: 'x' }),
  projection(SDS, NAME, 'v6', {
    name: 'x',
    generic_secret: { secret: { inline_string: 'canary' } },
  }),
  projection(ECDS, NAME, 'v7', { name: 'x' }),
];

t.test('each type has its own message, in the order of Envoy, which Envoy can read', async (t) => {
  const configs = await parse(cacheOf(ALL));
  t.match(configs, [
    { '@type': /ClustersConfigDump$/, dynamic_active_clusters: [{ version_info: 'v1' }] },
    { '@type': /EndpointsConfigDump$/, dynamic_endpoint_configs: [{ version_info: 'v2' }] },
    {
      '@type': /\.ListenersConfigDump$/,
      dynamic_listeners: [{ name: 'x', active_state: { version_info: 'v3' } }],
    },
    { dynamic_scoped_route_configs: [{ name: 'x', version_info: 'v4' }] },
    { '@type': /\.RoutesConfigDump$/, dynamic_route_configs: [{ version_info: 'v5' }] },
    { '@type': /SecretsConfigDump$/, dynamic_active_secrets: [{ name: 'x', version_info: 'v6' }] },
    { '@type': /EcdsConfigDump$/, ecds_filters: [{ version_info: 'v7' }] },
  ]);
  const registry = envoyRegistry();
  for (const { '@type': type, ...fields } of configs) {
    const desc = registry.getMessage(type.split('/')[1]!);
    // Envoy's bootstrap, and with it the file of the secrets' message, is not in the descriptor set.
    if (desc) t.doesNotThrow(() => fromJson(desc, fields, { registry }), desc.typeName);
    else t.match(type, /SecretsConfigDump$/);
  }
  t.notMatch(JSON.stringify(configs), 'canary');
});

t.test(
  'each content of a name appears once, however many node groups and globs have it',
  async (t) => {
    const [web, other] = [urn(cds('g/web')), urn(cds('g/other'))];
    const one = projection(CDS, web, 'v1', { name: cds('g/web') });
    const groups = ['g1', 'g2'].map((scope) =>
      projection(CDS, oldStyleName(scope, 'old'), 'v1', { name: 'old' }),
    );
    const third = projection(CDS, oldStyleName('g3', 'old'), 'v2', { name: 'old' });
    const two = projection(CDS, other, 'v1', { name: cds('g/other') });
    const [clusters] = await parse(cacheOf([one, ...groups, third], [one, two]));
    t.match(clusters, {
      dynamic_active_clusters: [
        { cluster: { name: cds('g/web') } },
        { cluster: { name: 'old' }, version_info: 'v1' },
        { cluster: { name: 'old' }, version_info: 'v2' },
        { cluster: { name: cds('g/other') } },
      ],
    });
    t.equal((clusters?.['dynamic_active_clusters'] as unknown[]).length, 4);
  },
);

const request = (query = ''): AdminRequest => ({
  method: 'GET',
  path: '/config_dump',
  query: new URLSearchParams(query),
  rawQuery: query,
  headers: {},
});

function contextOf(cache: Cache): { context: AdminContext; errors: unknown[] } {
  const errors: unknown[] = [];
  const telemetry = { onHandlerError: (error: unknown) => errors.push(error) };
  return { context: { gateway: { cache }, telemetry } as unknown as AdminContext, errors };
}

/** Takes one write at a time. */
class Reader extends Writable {
  text = '';
  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString();
    setImmediate(done);
  }
}

t.test('the dump is written at the pace of its reader, at most two at a time', async (t) => {
  const many = Array.from({ length: 500 }, (_, index) =>
    projection(CDS, oldStyleName('', `c${index}`), 'v', { name: `c${index}` }),
  );
  const { context } = contextOf(cacheOf(many));
  t.match(configDump(context, request('resource=x')), { status: 400, body: /no parameters/ });
  const readers = [new Reader({ highWaterMark: 1 }), new Reader()];
  for (const reader of readers) configDump(context, request()).goOn?.(reader as never);
  t.match(configDump(context, request()), { status: 503 });
  await until('both are written', () => readers.every(({ closed }) => closed));
  for (const { text } of readers) t.equal(text, await textOf(cacheOf(many)));
  const gone = new Reader();
  gone.destroy();
  configDump(context, request()).goOn?.(gone as never);
  await until('its place is free', () => configDump(context, request()).status === 200);
});

t.test('a dump that fails ends its connection, not the process', async (t) => {
  const { context, errors } = contextOf({
    names: () => {
      throw new Error('planted');
    },
  } as unknown as Cache);
  const reader = new Reader();
  configDump(context, request()).goOn?.(reader as never);
  await until('its connection is closed', () => reader.destroyed);
  t.match(errors, [{ message: 'planted' }]);
});
