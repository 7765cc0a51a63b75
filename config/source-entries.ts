/** Reads the sections `sources` and `config_sources` of the authority map. */
import { readCallCredential } from './call-credentials.js';
import { readMetadata, readRateLimit, readSecurity, type SourceContext } from './channel-parts.js';
import { readApiType, readPolling } from './api-type.js';
import { readConfigSource, type GrpcConfig, type PathConfig } from './config-source.js';
import type { Cursor } from './cursor.js';
import {
  DEFAULT_MAX_RECEIVE_BYTES,
  DEFAULT_PROTOCOL,
  DEFAULT_TIMERS,
  settingKey,
} from './defaults.js';
import { IDENTITY_SETTINGS, readForwarding, warnOfPlaintext } from './forwarding-entries.js';
import type { GrpcSourceSpec, NodeSpec, SourceSpec, SourceTimers } from './model.js';
import { readTarget } from './target.js';

export interface SourceEntry {
  readonly name: string;
  readonly at: Cursor;
  /** `undefined`: the entry has problems, already reported. */
  readonly spec: SourceSpec | undefined;
  /** The authorities that the ConfigSource lists (TP1). */
  readonly authorities: readonly Cursor[];
  /** It stands for `default_config_source` (`ads: {}`, `self: {}`), and is not a source itself. */
  readonly isDefault: boolean;
}

/** All sources, in the order of the file. */
export function readSources(root: Cursor, context: SourceContext): readonly SourceEntry[] {
  const named = root
    .field('sources')
    .entries()
    .map(([name, entry]) => readSource(name, entry, context));
  const listed = root
    .field('config_sources')
    .items()
    .map((entry, index) =>
      readListed(entry.field('name').string() ?? `config_sources[${index}]`, entry, context),
    );
  const seen = new Set<string>();
  for (const { name, at } of [...named, ...listed]) {
    if (name === '') at.problem('a source needs a name', undefined, 'key');
    if (seen.has(name)) at.field('name').problem(`duplicate source ${JSON.stringify(name)}`);
    seen.add(name);
  }
  return [...named, ...listed];
}

const FORMS = ['config_source', 'target', 'path'] as const;

/** Keys that only some forms allow. Every form allows the keys that are missing here. */
const KEYS_OF_FORM: Readonly<Record<string, readonly (typeof FORMS)[number][]>> = {
  tls: ['target'],
  initial_metadata: ['target'],
  channel_args: ['target'],
  rate_limit: ['target'],
  api_type: ['target'],
  refresh_delay: ['target'],
  request_timeout: ['target'],
  insecure: ['config_source', 'target'],
  max_receive: ['config_source', 'target'],
  timers: ['config_source', 'target'],
  node: ['config_source', 'target'],
  resume: ['config_source', 'target'],
  dynamic_parameters: ['config_source', 'target'],
  call_credentials: ['target'],
  node_in: ['config_source', 'target'],
  forward_node: ['config_source', 'target'],
  forward_headers: ['config_source', 'target'],
  client_identity: ['config_source', 'target'],
  tls_by_identity: ['config_source', 'target'],
  watched_directory: ['path'],
};

function readSource(name: string, entry: Cursor, context: SourceContext): SourceEntry {
  const forms = FORMS.filter((form) => entry.field(form).present);
  const [form, ...others] = forms;
  if (entry.object() === undefined) return { ...NOTHING, name, at: entry };
  if (form === undefined || others.length > 0) {
    const has = form === undefined ? 'has none of' : 'has more than one of';
    entry.problem(`${has} ${FORMS.join(', ')}`, 'write exactly one', 'key');
    return { ...NOTHING, name, at: entry };
  }
  for (const [key, allowed] of Object.entries(KEYS_OF_FORM)) {
    if (!entry.field(key).present || allowed.includes(form)) continue;
    const remedy = form === 'config_source' ? 'set it inside config_source' : 'leave it out';
    entry.field(key).problem(`is not allowed with ${form}`, remedy, 'key');
  }
  const config =
    form === 'config_source'
      ? readConfigSource(entry.field(form), entry.field('insecure').boolean() === true, context)
      : form === 'target'
        ? readShortForm(entry, context)
        : readPathForm(entry, context);
  const authorities = entry.field('config_source').field('authorities').items();
  return {
    name,
    at: entry,
    spec: toSpec(name, entry, config, context),
    authorities,
    isDefault: false,
  };
}

/** An entry without a usable source. */
const NOTHING = { spec: undefined, authorities: [], isDefault: false } as const;

function readListed(name: string, entry: Cursor, context: SourceContext): SourceEntry {
  const isDefault = DEFAULT_FORMS.some((form) => entry.field(form).value !== undefined);
  const authorities = entry.field('authorities').items();
  if (authorities.length === 0 && entry.object() !== undefined) {
    entry.problem('has no authorities', 'write authorities: [{ name: … }]', 'key');
  }
  if (isDefault) {
    checkDefaultForm(entry);
    return { name, at: entry, spec: undefined, authorities, isDefault };
  }
  const config = readConfigSource(entry, entry.field('insecure').boolean() === true, context);
  return { name, at: entry, spec: toSpec(name, entry, config, context), authorities, isDefault };
}

/** ConfigSources without an address: they mean the map's `default_config_source`. */
const DEFAULT_FORMS = ['ads', 'self'] as const;
/** What such a ConfigSource cannot have: the sources of `default_config_source` have their own. */
const OWN_SETTINGS = ['insecure', 'max_receive', 'timers', 'node'] as const;

function checkDefaultForm(entry: Cursor): void {
  const has = (name: string): boolean => entry.field(name).value !== undefined;
  const forms = [...DEFAULT_FORMS, 'api_config_source', 'path_config_source', 'path'].filter(has);
  if (forms.length > 1)
    entry.problem(`has more than one of ${forms.join(', ')}`, 'keep one', 'key');
  for (const name of OWN_SETTINGS.filter(has)) {
    const remedy = 'set it in the sources of default_config_source';
    entry.field(name).problem(`is not allowed with ${forms[0] ?? 'ads'}`, remedy, 'key');
  }
  const timeout = entry.field('initial_fetch_timeout');
  if (timeout.present) timeout.warn('has no effect: see default_config_source', undefined, 'key');
}

function readShortForm(entry: Cursor, context: SourceContext): GrpcConfig | undefined {
  const target = readTarget(entry.field('target'));
  const tls = readSecurity(entry, context);
  const credentials = entry.field('call_credentials');
  const { metadata, googleDefault } = readCallCredential(credentials, context);
  const initialMetadata = [...readMetadata(entry.field('initial_metadata'), context), ...metadata];
  const rateLimit = readRateLimit(entry.field('rate_limit'));
  const apiType = readApiType(entry, 'optional');
  for (const name of ['refresh_delay', 'request_timeout']) {
    if (apiType === 'REST' || !entry.field(name).present) continue;
    entry.field(name).problem('is for REST', 'write api_type: REST, or leave it out', 'key');
  }
  const channelArgs = entry
    .field('channel_args')
    .entries()
    .flatMap(([name, at]) => {
      const value = at.string() ?? at.number();
      if (apiType === 'REST' && name !== 'grpc.default_authority') {
        at.warn('has no effect with api_type: REST', 'leave it out', 'key');
        return [];
      }
      return value === undefined ? [] : [[name, value] as const];
    });
  if (target === undefined || apiType === undefined) return undefined;
  if (metadata.length > 0) warnOfPlaintext(credentials, { tls, target });
  if (googleDefault && apiType === 'REST') {
    credentials.problem('google_default needs gRPC', 'write access_token_file', 'key');
  }
  if (googleDefault && tls === null) {
    credentials.problem('google_default needs TLS', 'leave out insecure: true', 'key');
  }
  return {
    kind: 'grpc',
    apiType,
    ...(apiType === 'REST' ? { rest: readPolling(entry) } : {}),
    target,
    tls,
    initialMetadata,
    ...(googleDefault ? { googleDefault } : {}),
    channelArgs: Object.fromEntries(channelArgs),
    ...(rateLimit === undefined ? {} : { rateLimit }),
  };
}

function readPathForm(entry: Cursor, context: SourceContext): PathConfig | undefined {
  const watched = entry.field('watched_directory');
  const watchedDirectory = watched.present ? context.existingPath(watched, 'directory') : undefined;
  const path = context.existingPath(entry.field('path'), 'file or directory');
  if (path === undefined) return undefined;
  return { kind: 'path', path, ...(watchedDirectory === undefined ? {} : { watchedDirectory }) };
}

function toSpec(
  name: string,
  entry: Cursor,
  config: GrpcConfig | PathConfig | undefined,
  context: SourceContext,
): SourceSpec | undefined {
  // Read these even if `config` has problems, to report all problems of the entry at once.
  const timers = readTimers(
    entry.field('timers'),
    config?.kind === 'grpc' ? config.resourceTimeoutMs : undefined,
  );
  const node = readNode(entry.field('node'));
  const maxReceiveBytes = entry.field('max_receive').sizeBytes();
  const resume = readResume(entry.field('resume'), config);
  const forwardsParameters = readIfDelta(entry.field('dynamic_parameters'), config) === 'forward';
  if (config === undefined) return undefined;
  if (config.kind === 'path') {
    refuseForFiles(entry);
    return { ...config, name };
  }
  const spec: GrpcSourceSpec = {
    kind: 'grpc',
    name,
    ...DEFAULT_PROTOCOL,
    apiType: config.apiType,
    resume,
    ...(forwardsParameters ? { dynamicParameters: 'forward' } : {}),
    ...(config.rest === undefined ? {} : { rest: config.rest }),
    target: config.target,
    tls: config.tls,
    initialMetadata: config.initialMetadata,
    channelArgs: config.channelArgs,
    ...(config.rateLimit === undefined ? {} : { rateLimit: config.rateLimit }),
    maxReceiveBytes: maxReceiveBytes ?? config.maxReceiveBytes ?? DEFAULT_MAX_RECEIVE_BYTES,
    timers,
    ...(node === undefined ? {} : { node }),
    ...(config.googleDefault === true ? { googleDefault: true } : {}),
  };
  return { ...spec, ...readForwarding(entry, spec, context) };
}

/** The short form has reported these by `KEYS_OF_FORM`. */
function refuseForFiles(entry: Cursor): void {
  if (entry.field('path').present && !entry.field('authorities').present) return;
  for (const setting of ['node_in', ...IDENTITY_SETTINGS]) {
    if (!entry.field(setting).present) continue;
    entry.field(setting).problem('is for management servers only', 'leave it out', 'key');
  }
}

/** Only a delta source is sent versions on a reconnect. */
function readResume(
  at: Cursor,
  config: GrpcConfig | PathConfig | undefined,
): GrpcSourceSpec['resume'] {
  return readIfDelta(at, config) === 'fresh' ? 'fresh' : DEFAULT_PROTOCOL.resume;
}

/** A setting that only delta sources have. */
function readIfDelta(at: Cursor, config: GrpcConfig | PathConfig | undefined): unknown {
  const isDelta = config?.kind === 'grpc' && config.apiType.includes('DELTA');
  if (at.present && config?.kind === 'grpc' && !isDelta) {
    at.problem(`has no effect with ${config.apiType}`, 'leave it out', 'key');
  }
  return at.value;
}

const MAY_BE_ZERO: ReadonlySet<keyof SourceTimers> = new Set([
  'probeIntervalMs',
  'lingerMs',
  'minStableMs',
]);

/** `initial_fetch_timeout` and `resource_timeout` are the same setting, so an entry may have only one. */
function readTimers(at: Cursor, resourceTimeoutMs: number | undefined): SourceTimers {
  const timers: Record<keyof SourceTimers, number> = { ...DEFAULT_TIMERS };
  if (resourceTimeoutMs !== undefined) timers.resourceTimeoutMs = resourceTimeoutMs;
  for (const field of Object.keys(DEFAULT_TIMERS) as (keyof SourceTimers)[]) {
    const setting = at.field(settingKey(field));
    const value = field.endsWith('Ms')
      ? setting.durationMs(MAY_BE_ZERO.has(field) ? 'zero allowed' : 'more than zero')
      : setting.number();
    if (value !== undefined) timers[field] = value;
  }
  if (resourceTimeoutMs !== undefined && at.field('resource_timeout').present) {
    at.field('resource_timeout').problem(
      'is the same setting as initial_fetch_timeout',
      'keep one',
      'key',
    );
  }
  if (timers.backoffMaxMs < timers.backoffBaseMs) {
    const written = at.field('backoff_max').present ? 'backoff_max' : 'backoff_base';
    at.field(written).problem('backoff_max is less than backoff_base');
  }
  return timers;
}

function readNode(at: Cursor): NodeSpec | undefined {
  const id = at.field('id').string();
  if (id === undefined) return undefined;
  const locality = at.field('locality');
  const metadata = at.field('metadata').object();
  const part = (name: string): string => locality.field(name).string() ?? '';
  return {
    id,
    cluster: at.field('cluster').string() ?? '',
    ...(locality.object() === undefined
      ? {}
      : { locality: { region: part('region'), zone: part('zone'), subZone: part('sub_zone') } }),
    ...(metadata === undefined ? {} : { metadata }),
    ...readDynamicParameters(at.field('dynamic_parameters')),
  };
}

function readDynamicParameters(at: Cursor): Pick<NodeSpec, 'dynamicParameters'> {
  if (at.object() === undefined) return {};
  const byType = at.entries().map(([typeUrl, entry]) => {
    const params = entry
      .field('params')
      .entries()
      .map(([key, value]) => [key, value.string() ?? ''] as const);
    return [typeUrl, Object.fromEntries(params)] as const;
  });
  return { dynamicParameters: Object.fromEntries(byType) };
}
