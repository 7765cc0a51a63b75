/**
 * The settings of the process. Precedence from low to high: defaults, the settings file, the
 * environment, flags. The result lists every problem of all sources at once.
 */
import { hostname } from 'node:os';
import { dirname, resolve } from 'node:path';
import convict from 'convict';
import { DEFAULT_LIMITS, type Keepalive, type Limits, type ResolutionBounds } from './limits.js';
import { deepFreeze } from './freeze.js';
import { filesOnDisk, type MapFiles } from './map-files.js';
import type { NodeSpec } from './model.js';
import { settingKey } from './defaults.js';
import { natsContradictions, toNatsSettings, type NatsSettings } from './nats-settings.js';
import { sortProblems, type Problem } from './problems.js';
import { readRegularFile } from './regular-file.js';
import { checkSettingFiles } from './setting-files.js';
import { SETTING_FORMATS } from './setting-formats.js';
import { environmentName, LIMIT_FIELDS, SETTING_OPTIONS } from './setting-options.js';
import {
  readEnvironment,
  readFlags,
  readSettingsFile,
  settingsFileOf,
  type SettingValues,
} from './setting-sources.js';
import { unreadableFile } from './unreadable-file.js';
import { decodeUtf8, NOT_UTF8, SAVE_AS_UTF8 } from './utf8.js';

export type { NatsSettings } from './nats-settings.js';

/** TLS towards clients, or towards operators on the admin port. All paths are absolute. The gateway rereads the files when they change. */
export interface ServerTlsSpec {
  readonly certChainFile: string;
  readonly privateKeyFile: string;
  /** Present: mutual TLS. */
  readonly clientCaFile?: string;
}

/** How tokens of clients are verified. */
export interface JwtSpec {
  /** Absolute path of a JSON Web Key Set. The gateway rereads it when it changes. */
  readonly jwksFile: string;
  readonly issuer: string;
  readonly audience: string;
  /** By how much the clock of the issuer may differ. */
  readonly clockSkewMs: number;
}

export interface Settings {
  /** Absolute path. */
  readonly authorityMap: string;
  /** `tls: null` is plaintext: on a loopback address, or with `client.insecure: true`. */
  readonly client: {
    readonly host: string;
    readonly port: number;
    readonly tls: ServerTlsSpec | null;
    readonly keepalive: Keepalive;
    /** `auto`: a limit for gRPC clients, none for others. A number: bytes, for every client. */
    readonly maxMessage: 'auto' | 'none' | number;
    /** `null`: the gateway reads no tokens. */
    readonly jwt: JwtSpec | null;
  };
  readonly admin: {
    readonly host: string;
    readonly port: number;
    /** Absolute path. `null`: no token is required. */
    readonly tokenFile: string | null;
    /** `null`: plaintext. */
    readonly tls: ServerTlsSpec | null;
  };
  readonly probe: { readonly host: string; readonly port: number };
  readonly node: NodeSpec;
  readonly log: { readonly level: string; readonly pretty: boolean };
  /** `null`: no traces. `endpoint`: the URL to which they are posted. */
  readonly traces: { readonly endpoint: string } | null;
  /** The response for an absent RouteConfiguration or TypedExtensionConfig. */
  readonly absentRouteAnswer: 'removed' | 'silence';
  /** Absolute path. `null`: the gateway forgets the names of collection members when it exits. */
  readonly stateFile: string | null;
  /** Absolute path. `null`: the gateway keeps no content beyond the process. */
  readonly contentDir: string | null;
  /** `null`: the instance exchanges no hints with peer instances. */
  readonly nats: NatsSettings | null;
  /** The response to a state-of-the-world client that requests a missing cluster. */
  readonly missingClusterAnswer: 'silence' | 'placeholder';
  /** Whether the gateway ends a stream when no source could answer any requested resource. */
  readonly unanswerableStream: 'silence' | 'end';
  readonly resolution: ResolutionBounds;
  readonly limits: Limits;
}

export type SettingsResult =
  | { readonly ok: true; readonly settings: Settings; readonly warnings: readonly Problem[] }
  | {
      readonly ok: false;
      readonly problems: readonly Problem[];
      /** The settings are right, and files that they name are not: a later start may succeed. */
      readonly areFilesWrong?: true;
    };

export interface SettingsInput {
  /** `process.argv.slice(2)`. The caller handles `--help`, `--version` and `--settings`. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /**
   * The settings file, YAML or JSON. `path` is absolute; relative paths in the text are relative to
   * it.
   */
  readonly file?: { readonly path: string; readonly text: string };
  /** For checks of the files that the settings name. Absent: no check. */
  readonly files?: MapFiles;
  /**
   * Base of relative paths in flags and the environment. Default: the working directory of the
   * process.
   */
  readonly workingDirectory?: string;
  readonly hostName?: string;
  /** Whether a person reads stdout: the default of `log.pretty`. */
  readonly isTerminal?: boolean;
}

for (const [name, format] of Object.entries(SETTING_FORMATS)) {
  convict.addFormat({
    name: `tributary-${name}`,
    // `Collector.take` has already validated the value, with clearer error texts than convict's.
    validate: () => undefined,
    coerce: (value: unknown) => {
      const read = format.read(value);
      return read.ok ? read.value : value;
    },
  });
}

/** Invalid input yields problems, never an exception. */
export function parseSettings(input: SettingsInput): SettingsResult {
  const workingDirectory = input.workingDirectory ?? process.cwd();
  const file =
    input.file === undefined ? undefined : readSettingsFile(input.file.text, input.file.path);
  const environment = readEnvironment(input.env);
  const flags = readFlags(input.argv);
  const sources = [file, environment, flags].filter((source) => source !== undefined);
  const problems = sources.flatMap((source) => source.problems);
  const warnings = [...environment.warnings];
  const merged = merge(sources, (path, fromFile) =>
    resolve(
      fromFile && input.file !== undefined ? dirname(input.file.path) : workingDirectory,
      path,
    ),
  );
  const get = (key: string): unknown => merged.get(key);
  problems.push(...contradictions(get, sources));
  const areSettingsWrong = problems.length > 0;
  const named = input.files ? checkSettingFiles(get, input.files) : [];
  for (const { key, isHarmless, message, remedy } of named) {
    const problem = problemOf(sources, key, message, remedy);
    if (isHarmless) warnings.push(problem);
    else problems.push(problem);
  }
  if (problems.length > 0) {
    const files = areSettingsWrong ? {} : ({ areFilesWrong: true } as const);
    return { ok: false, problems: sortProblems(problems), ...files };
  }
  const settings = toSettings(get, input.hostName ?? hostname(), input.isTerminal === true);
  return { ok: true, settings: deepFreeze(settings), warnings };
}

/**
 * `parseSettings` with the file that `--settings` or `TRIBUTARY_SETTINGS` names. Reads that file, and the files
 * that the settings name.
 */
export function loadSettings(input: Omit<SettingsInput, 'file' | 'files'>): SettingsResult {
  const files = filesOnDisk('problem');
  const written = settingsFileOf(input.argv, input.env);
  if (written === undefined) return parseSettings({ ...input, files });
  const path = resolve(input.workingDirectory ?? process.cwd(), written);
  let bytes: Buffer;
  try {
    bytes = readRegularFile(path);
  } catch (error) {
    return { ok: false, problems: [unreadableFile(written, path, error)] };
  }
  const read = decodeUtf8(bytes);
  if (read.ok) return parseSettings({ ...input, files, file: { path, text: read.text } });
  const { line, column } = read;
  const problem = { file: path, line, column, field: '', message: NOT_UTF8, remedy: SAVE_AS_UTF8 };
  return { ok: false, problems: [problem] };
}

/** Merges defaults and sources with convict; later sources win. */
function merge(
  sources: readonly SettingValues[],
  absolute: (path: string, fromFile: boolean) => string,
): convict.Config<Record<string, unknown>> {
  const config = convict<Record<string, unknown>>(convictSchema(), { env: {}, args: [] });
  for (const source of sources) {
    for (const [key, { value, format }] of source.values) {
      const isPath = format === 'path' && typeof value === 'string';
      config.set(key, isPath ? absolute(value, source.kind === 'file') : value);
    }
  }
  return config;
}

/** `SETTING_OPTIONS` as a nested convict schema. */
function convictSchema(): convict.Schema<Record<string, unknown>> {
  const schema: Record<string, unknown> = {};
  for (const option of SETTING_OPTIONS) {
    const steps = option.key.split('.');
    let at = schema;
    for (const step of steps.slice(0, -1)) at = (at[step] ??= {}) as Record<string, unknown>;
    at[steps.at(-1) ?? ''] = {
      doc: option.doc,
      format: `tributary-${option.format}`,
      default: option.default,
      nullable: true,
      env: environmentName(option.key),
    };
  }
  return schema as convict.Schema<Record<string, unknown>>;
}

/** A problem at the place of the setting, if it was written. */
function problemOf(
  sources: readonly SettingValues[],
  key: string,
  message: string,
  remedy?: string,
): Problem {
  const written = sources.findLast((source) => source.values.has(key))?.values.get(key);
  const { file, line, column } = written?.place ?? { file: 'settings', line: 0, column: 0 };
  return { file, line, column, field: key, message, ...(remedy === undefined ? {} : { remedy }) };
}

/** Checks that need several settings. */
function contradictions(
  get: (key: string) => unknown,
  sources: readonly SettingValues[],
): readonly Problem[] {
  const problems: Problem[] = [];
  const add = (key: string, message: string, remedy: string): void => {
    problems.push(problemOf(sources, key, message, remedy));
  };
  const mentioned = (key: string): boolean => sources.some((source) => source.mentioned.has(key));
  if (get('authority_map') === null && !mentioned('authority_map')) {
    add('authority_map', 'is not set', 'write --authority-map FILE');
  }
  for (const section of ['client', 'admin']) tlsContradictions(section, get, add);
  const [cert, key] = [get('client.tls.cert'), get('client.tls.key')];
  if (get('client.insecure') === true && cert !== null) {
    add('client.insecure', 'contradicts client.tls', 'leave out client.insecure or client.tls');
  }
  if (
    cert === null &&
    key === null &&
    get('client.insecure') !== true &&
    !isLoopback(String(get('client.host')))
  ) {
    add(
      'client.host',
      `${String(get('client.host'))} is not a loopback address, and there is no TLS`,
      'set client.tls.cert and client.tls.key, or client.insecure: true',
    );
  }
  const isGuarded = get('admin.token_file') !== null || get('admin.tls.client_ca') !== null;
  if (!isGuarded && !isLoopback(String(get('admin.host')))) {
    add(
      'admin.host',
      `${String(get('admin.host'))} is not a loopback address, and anybody could use the admin server`,
      'set admin.token_file, or admin.tls.cert, admin.tls.key and admin.tls.client_ca',
    );
  }
  const hasKeys = get('client.jwt.jwks') !== null;
  for (const claim of ['client.jwt.issuer', 'client.jwt.audience']) {
    if (hasKeys && get(claim) === null) add(claim, 'is not set', 'client.jwt.jwks needs it');
    if (!hasKeys && get(claim) !== null) add(claim, 'needs keys', 'set client.jwt.jwks');
  }
  for (const key of ['client.port', 'admin.port', 'probe.port']) {
    const port = movedPort(Number(get(key)), Number(get('port_offset')));
    if (port > MAX_PORT) add('port_offset', `moves ${key} to ${port}`, 'ports end at 65535');
  }
  portContradictions(get, add);
  natsContradictions(get, mentioned, add);
  return problems;
}

/** Two listeners of this process on one port: the second one would fail, and seem to meet another process. */
function portContradictions(
  get: (key: string) => unknown,
  add: (key: string, message: string, remedy: string) => void,
): void {
  const listeners = ['client', 'admin', 'probe'].map((section) => {
    const key = `${section}.port`;
    const port = get(key) === null ? probePortBeside(Number(get('admin.port'))) : Number(get(key));
    return { key, port, host: withoutBrackets(String(get(`${section}.host`))) };
  });
  for (const [at, { key, port, host }] of listeners.entries()) {
    const before = listeners.slice(0, at).find((one) => one.port === port);
    if (!before || port === 0 || !meet(host, before.host)) continue;
    const origin = get(key) === null ? ' (admin.port plus 100)' : '';
    add(key, `is ${port}${origin}, which is ${before.key} too`, 'set another port');
  }
}

/** Node listens at `::` for IPv4, too. */
const meet = (one: string, other: string): boolean =>
  one === other || [one, other].includes('::') || isAnyIPv4(one, other) || isAnyIPv4(other, one);
const isAnyIPv4 = (one: string, other: string): boolean =>
  one === '0.0.0.0' && !other.includes(':');

/** `[::1]`, as in a URL, is `::1`. */
const withoutBrackets = (host: string): string => host.replace(/^\[(.*)\]$/, '$1');

/** @param section `client` or `admin` */
function tlsContradictions(
  section: string,
  get: (key: string) => unknown,
  add: (key: string, message: string, remedy: string) => void,
): void {
  const at = (name: string): string => `${section}.tls.${name}`;
  const has = (name: string): boolean => get(at(name)) !== null;
  if (has('cert') && !has('key')) add(at('key'), 'is not set', `${at('cert')} needs it`);
  if (!has('cert') && has('key')) add(at('cert'), 'is not set', `${at('key')} needs it`);
  if (!has('cert') && !has('key') && has('client_ca')) {
    const remedy = `set ${at('cert')} and ${at('key')}`;
    add(at('client_ca'), 'needs a server certificate', remedy);
  }
}

/** May hosts that the operator does not know connect: beyond loopback, and without a client certificate? */
export const isOpenToOthers = ({ host, tls }: Settings['client']): boolean =>
  !isLoopback(host) && tls?.clientCaFile === undefined;

function isLoopback(host: string): boolean {
  return (
    host === 'localhost' || host === '::1' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host)
  );
}

function toSettings(
  get: (key: string) => unknown,
  hostName: string,
  isTerminal: boolean,
): Settings {
  const text = (key: string): string | undefined => {
    const value = get(key);
    return typeof value === 'string' ? value : undefined;
  };
  const number = (key: string): number => Number(get(key));
  const port = (key: string): number => movedPort(number(key), number('port_offset'));
  const adminPort = port('admin.port');
  return {
    authorityMap: text('authority_map') ?? '',
    client: {
      host: withoutBrackets(text('client.host') ?? ''),
      port: port('client.port'),
      tls: toServerTls('client', text),
      maxMessage: toMaxMessage(get('client.max_message')),
      jwt: toJwt(get),
      keepalive: {
        timeMs: number('client.keepalive.time'),
        timeoutMs: number('client.keepalive.timeout'),
      },
    },
    admin: {
      host: withoutBrackets(text('admin.host') ?? ''),
      port: adminPort,
      tokenFile: text('admin.token_file') ?? null,
      tls: toServerTls('admin', text),
    },
    probe: {
      host: withoutBrackets(text('probe.host') ?? ''),
      port: get('probe.port') === null ? probePortBeside(adminPort) : port('probe.port'),
    },
    node: toNode(get, text, hostName),
    log: { level: text('log.level') ?? 'info', pretty: (get('log.pretty') ?? isTerminal) === true },
    traces: toTraces(text('traces.endpoint')),
    absentRouteAnswer: get('absent_route_answer') === 'silence' ? 'silence' : 'removed',
    stateFile: text('state_file') ?? null,
    contentDir: text('content_dir') ?? null,
    nats: toNatsSettings(get),
    missingClusterAnswer:
      get('missing_cluster_answer') === 'placeholder' ? 'placeholder' : 'silence',
    unanswerableStream: get('unanswerable_stream') === 'end' ? 'end' : 'silence',
    resolution: {
      maxHops: number('resolution.max_hops'),
      maxListEntries: number('resolution.max_list_entries'),
      maxNestedLists: number('resolution.max_nested_lists'),
    },
    limits: toLimits(get),
  };
}

/** @param section `client` or `admin` */
function toServerTls(
  section: string,
  text: (key: string) => string | undefined,
): ServerTlsSpec | null {
  const certChainFile = text(`${section}.tls.cert`);
  const privateKeyFile = text(`${section}.tls.key`);
  const clientCaFile = text(`${section}.tls.client_ca`);
  if (certChainFile === undefined || privateKeyFile === undefined) return null;
  return { certChainFile, privateKeyFile, ...(clientCaFile === undefined ? {} : { clientCaFile }) };
}

const MAX_PORT = 65_535;
/** Instances on one host have admin ports in a row, so the next one may be taken. */
const PROBE_PORT_OFFSET = 100;

/** A free port (0) needs no offset. */
const movedPort = (port: number, offset: number): number => (port === 0 ? 0 : port + offset);

/** 0 stands for a free port. */
function probePortBeside(adminPort: number): number {
  const port = adminPort + PROBE_PORT_OFFSET;
  return adminPort === 0 || port > MAX_PORT ? 0 : port;
}

function toJwt(get: (key: string) => unknown): JwtSpec | null {
  const jwksFile = get('client.jwt.jwks');
  if (typeof jwksFile !== 'string') return null;
  return {
    jwksFile,
    issuer: String(get('client.jwt.issuer')),
    audience: String(get('client.jwt.audience')),
    clockSkewMs: Number(get('client.jwt.clock_skew')),
  };
}

function toNode(
  get: (key: string) => unknown,
  text: (key: string) => string | undefined,
  hostName: string,
): NodeSpec {
  const [region, zone, subZone] = ['region', 'zone', 'sub_zone'].map((name) =>
    text(`node.locality.${name}`),
  );
  const metadata = get('node.metadata');
  const hasLocality = region !== undefined || zone !== undefined || subZone !== undefined;
  return {
    id: text('node.id') ?? `tributary-${hostName}`,
    cluster: text('node.cluster') ?? '',
    ...(hasLocality
      ? { locality: { region: region ?? '', zone: zone ?? '', subZone: subZone ?? '' } }
      : {}),
    ...(typeof metadata === 'object' && metadata !== null
      ? { metadata: metadata as Readonly<Record<string, unknown>> }
      : {}),
  };
}

const toTraces = (endpoint: string | undefined): Settings['traces'] =>
  endpoint === undefined ? null : { endpoint };

function toMaxMessage(value: unknown): Settings['client']['maxMessage'] {
  if (typeof value === 'number') return value;
  return value === 'none' ? 'none' : 'auto';
}

function toLimits(get: (key: string) => unknown): Limits {
  const limits: Record<keyof Limits, number> = { ...DEFAULT_LIMITS };
  for (const field of LIMIT_FIELDS) limits[field] = Number(get(`limits.${settingKey(field)}`));
  return limits;
}
