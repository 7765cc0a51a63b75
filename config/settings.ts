/**
 * The process's settings: defaults, then the settings file, then the environment, then flags. All
 * that is wrong anywhere is told at once.
 */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, resolve } from 'node:path';
import convict from 'convict';
import { DEFAULT_LIMITS, type Keepalive, type Limits, type ResolutionBounds } from './limits.js';
import { deepFreeze } from './freeze.js';
import type { NodeSpec } from './model.js';
import { settingKey } from './defaults.js';
import { natsContradictions, toNatsSettings, type NatsSettings } from './nats-settings.js';
import { sortProblems, type Problem } from './problems.js';
import { SETTING_FORMATS } from './setting-formats.js';
import { environmentName, LIMIT_FIELDS, SETTING_OPTIONS } from './setting-options.js';
import {
  readEnvironment,
  readFlags,
  readSettingsFile,
  settingsFileOf,
  type SettingValues,
} from './setting-sources.js';

export type { NatsSettings } from './nats-settings.js';

/** TLS towards clients. All paths are absolute; files are read again when they change. */
export interface ServerTlsSpec {
  readonly certChainFile: string;
  readonly privateKeyFile: string;
  /** Present: mutual TLS. */
  readonly clientCaFile?: string;
}

export interface Settings {
  /** Absolute path. */
  readonly authorityMap: string;
  /** `tls: null` is plaintext: on a loopback address, or because the operator said so. */
  readonly client: {
    readonly host: string;
    readonly port: number;
    readonly tls: ServerTlsSpec | null;
    readonly keepalive: Keepalive;
    /** `auto`: by who the client is. Bytes: for every client. */
    readonly maxMessage: 'auto' | 'none' | number;
  };
  readonly admin: { readonly host: string; readonly port: number };
  readonly node: NodeSpec;
  readonly log: { readonly level: string; readonly pretty: boolean };
  /** How an absent RouteConfiguration or TypedExtensionConfig is answered. */
  readonly absentRouteAnswer: 'removed' | 'silence';
  /** Absolute path; `null`: names of collections do not outlive the process. */
  readonly stateFile: string | null;
  /** `null`: no other instances, or none that are heard. */
  readonly nats: NatsSettings | null;
  /** How a state-of-the-world client is answered that asks for a cluster which cannot be had. */
  readonly missingClusterAnswer: 'silence' | 'placeholder';
  /** What becomes of a state-of-the-world stream of which nothing can be said. */
  readonly unanswerableStream: 'silence' | 'end';
  readonly resolution: ResolutionBounds;
  readonly limits: Limits;
}

export type SettingsResult =
  | { readonly ok: true; readonly settings: Settings; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[] };

export interface SettingsInput {
  /** Without the program: `process.argv.slice(2)`. `--help`, `--version` and `--settings` are the caller's. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The settings file, YAML or JSON; relative paths in it are relative to it. `path` is absolute. */
  readonly file?: { readonly path: string; readonly text: string };
  /** Relative paths of flags and of the environment are relative to it. Default: that of the process. */
  readonly workingDirectory?: string;
  readonly hostName?: string;
}

for (const [name, format] of Object.entries(SETTING_FORMATS)) {
  convict.addFormat({
    name: `tributary-${name}`,
    // What comes here was read by the same format before, with better words for what is wrong.
    validate: () => undefined,
    coerce: (value: unknown) => {
      const read = format.read(value);
      return read.ok ? read.value : value;
    },
  });
}

/** Never throws for what the inputs say. */
export function parseSettings(input: SettingsInput): SettingsResult {
  const workingDirectory = input.workingDirectory ?? process.cwd();
  const file =
    input.file === undefined ? undefined : readSettingsFile(input.file.text, input.file.path);
  const environment = readEnvironment(input.env);
  const flags = readFlags(input.argv);
  const sources = [file, environment, flags].filter((source) => source !== undefined);
  const problems = sources.flatMap((source) => source.problems);
  const merged = merge(sources, (path, fromFile) =>
    resolve(
      fromFile && input.file !== undefined ? dirname(input.file.path) : workingDirectory,
      path,
    ),
  );
  const get = (key: string): unknown => merged.get(key);
  problems.push(...contradictions(get, sources));
  if (problems.length > 0) return { ok: false, problems: sortProblems(problems) };
  const settings = toSettings(get, input.hostName ?? hostname());
  return { ok: true, settings: deepFreeze(settings), warnings: environment.warnings };
}

/** `parseSettings` with the file that `--settings` or `TRIBUTARY_SETTINGS` names, which it reads. */
export function loadSettings(input: Omit<SettingsInput, 'file'>): SettingsResult {
  const written = settingsFileOf(input.argv, input.env);
  if (written === undefined) return parseSettings(input);
  const path = resolve(input.workingDirectory ?? process.cwd(), written);
  try {
    return parseSettings({ ...input, file: { path, text: readFileSync(path, 'utf8') } });
  } catch (error) {
    const message = `cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    return { ok: false, problems: [{ file: path, line: 0, column: 0, field: '', message }] };
  }
}

/** Lets convict put defaults and sources on top of one another; `get` answers by key. */
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

/** The table as convict wants it: nested, with its own default for each leaf. */
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

/** What no single setting can tell. The problem stands where the setting was written, if it was. */
function contradictions(
  get: (key: string) => unknown,
  sources: readonly SettingValues[],
): readonly Problem[] {
  const problems: Problem[] = [];
  const add = (key: string, message: string, remedy: string): void => {
    const written = sources.findLast((source) => source.values.has(key))?.values.get(key);
    const nowhere = { file: 'settings', line: 0, column: 0 };
    const { file, line, column } = written?.place ?? nowhere;
    problems.push({ file, line, column, field: key, message, remedy });
  };
  const mentioned = (key: string): boolean => sources.some((source) => source.mentioned.has(key));
  const [cert, key, clientCa] = ['cert', 'key', 'client_ca'].map((name) =>
    get(`client.tls.${name}`),
  );
  if (get('authority_map') === null && !mentioned('authority_map')) {
    add('authority_map', 'is not set', 'write --authority-map FILE');
  }
  if (cert !== null && key === null)
    add('client.tls.key', 'is not set', 'client.tls.cert needs it');
  if (cert === null && key !== null)
    add('client.tls.cert', 'is not set', 'client.tls.key needs it');
  if (cert === null && key === null && clientCa !== null) {
    add(
      'client.tls.client_ca',
      'needs a server certificate',
      'set client.tls.cert and client.tls.key',
    );
  }
  if (get('client.insecure') === true && cert !== null) {
    add('client.insecure', 'TLS and plaintext at once', 'leave out client.insecure or client.tls');
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
  natsContradictions(get, mentioned, add);
  return problems;
}

function isLoopback(host: string): boolean {
  return (
    host === 'localhost' || host === '::1' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host)
  );
}

function toSettings(get: (key: string) => unknown, hostName: string): Settings {
  const text = (key: string): string | undefined => {
    const value = get(key);
    return typeof value === 'string' ? value : undefined;
  };
  const number = (key: string): number => Number(get(key));
  const certChainFile = text('client.tls.cert');
  const privateKeyFile = text('client.tls.key');
  const clientCaFile = text('client.tls.client_ca');
  const tls =
    certChainFile === undefined || privateKeyFile === undefined
      ? null
      : { certChainFile, privateKeyFile, ...(clientCaFile === undefined ? {} : { clientCaFile }) };
  return {
    authorityMap: text('authority_map') ?? '',
    client: {
      host: text('client.host') ?? '',
      port: number('client.port'),
      tls,
      maxMessage: toMaxMessage(get('client.max_message')),
      keepalive: {
        timeMs: number('client.keepalive.time'),
        timeoutMs: number('client.keepalive.timeout'),
      },
    },
    admin: { host: text('admin.host') ?? '', port: number('admin.port') },
    node: toNode(get, text, hostName),
    log: { level: text('log.level') ?? 'info', pretty: get('log.pretty') === true },
    absentRouteAnswer: get('absent_route_answer') === 'silence' ? 'silence' : 'removed',
    stateFile: text('state_file') ?? null,
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

function toMaxMessage(value: unknown): Settings['client']['maxMessage'] {
  if (typeof value === 'number') return value;
  return value === 'none' ? 'none' : 'auto';
}

function toLimits(get: (key: string) => unknown): Limits {
  const limits: Record<keyof Limits, number> = { ...DEFAULT_LIMITS };
  for (const field of LIMIT_FIELDS) limits[field] = Number(get(`limits.${settingKey(field)}`));
  return limits;
}
