/** The `nats` section of the settings, for hints between the instances of one cluster. */

export interface NatsTlsSpec {
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
}

/** All paths are absolute. Secrets are in files only. */
export interface NatsSettings {
  /** URLs, `nats://host:port` or `tls://host:port`; at least one. */
  readonly servers: readonly string[];
  /** Instances of one cluster exchange hints. One token of a NATS subject. */
  readonly cluster: string;
  readonly subjectPrefix: string;
  /** `null`: plaintext, to loopback addresses or with `nats.insecure: true`. */
  readonly tls: NatsTlsSpec | null;
  readonly credentialsFile?: string;
  readonly user?: string;
  readonly passwordFile?: string;
  readonly tokenFile?: string;
  /** How long the instance waits for its own sources to deliver the change that a hint announces. */
  readonly graceMs: number;
}

type Get = (key: string) => unknown;
type Add = (key: string, message: string, remedy: string) => void;

const URL_FORM = /^(nats|tls):\/\/[^/@\s]+$/;

/** Checks that need several settings of the section. */
export function natsContradictions(get: Get, isMentioned: Get, add: Add): void {
  const is = (name: string): boolean => get(`nats.${name}`) !== null;
  const servers = serversOf(get);
  if (servers.length === 0) {
    const other = ['cluster', 'user', 'credentials_file', 'password_file', 'token_file', 'tls.ca'];
    const written = other.find((name) => isMentioned(`nats.${name}`) === true);
    if (written !== undefined) add('nats.servers', 'is not set', `nats.${written} needs it`);
    return;
  }
  for (const url of servers) {
    if (!URL_FORM.test(url)) {
      add(
        'nats.servers',
        `${withoutUser(url)} is not the URL of a NATS server`,
        'write nats://host:4222, without a user',
      );
    }
  }
  if (is('tls.cert') !== is('tls.key')) {
    const missing = is('tls.cert') ? 'key' : 'cert';
    add(`nats.tls.${missing}`, 'is not set', 'nats.tls.cert and nats.tls.key need each other');
  }
  if (is('user') !== is('password_file')) {
    const missing = is('user') ? 'password_file' : 'user';
    add(`nats.${missing}`, 'is not set', 'nats.user and nats.password_file need each other');
  }
  const ways = ['credentials_file', 'user', 'token_file'].filter(is);
  const [, second] = ways;
  if (second !== undefined) {
    add(`nats.${second}`, `conflicts with nats.${ways[0] ?? ''}`, 'keep one of them');
  }
  const address = servers.find((url) => ADDRESS_URL.test(url));
  if (address !== undefined && hasTls(get)) {
    // For an IP address, the library compares the certificate with "localhost".
    add(
      'nats.servers',
      `${address} is an IP address, but TLS verifies host names`,
      'write the host name',
    );
  }
  const plain = servers.find(
    (url) => URL_FORM.test(url) && !url.startsWith('tls://') && !isLoopbackUrl(url),
  );
  if (plain !== undefined && !hasTls(get) && get('nats.insecure') !== true) {
    add(
      'nats.servers',
      `${withoutUser(plain)} is not a loopback address, and there is no TLS`,
      'write tls://…, set nats.tls.ca, or nats.insecure: true',
    );
  }
}

/** @returns null without servers: the instance works alone */
export function toNatsSettings(get: Get): NatsSettings | null {
  const servers = serversOf(get);
  if (servers.length === 0) return null;
  const text = <K extends string>(field: K, name: string): Partial<Record<K, string>> => {
    const value = get(`nats.${name}`);
    return typeof value === 'string' ? ({ [field]: value } as Record<K, string>) : {};
  };
  return {
    servers,
    cluster: String(get('nats.cluster')),
    subjectPrefix: String(get('nats.subject_prefix')),
    tls: hasTls(get)
      ? {
          ...text('caFile', 'tls.ca'),
          ...text('certFile', 'tls.cert'),
          ...text('keyFile', 'tls.key'),
        }
      : null,
    ...text('credentialsFile', 'credentials_file'),
    ...text('user', 'user'),
    ...text('passwordFile', 'password_file'),
    ...text('tokenFile', 'token_file'),
    graceMs: Number(get('nats.grace')),
  };
}

function serversOf(get: Get): readonly string[] {
  const value = get('nats.servers');
  return Array.isArray(value) ? value.map(String) : [];
}

function hasTls(get: Get): boolean {
  const isSet = ['ca', 'cert', 'key'].some((name) => get(`nats.tls.${name}`) !== null);
  return isSet || serversOf(get).some((url) => url.startsWith('tls://'));
}

const ADDRESS_URL = /^\w+:\/\/([\d.]+|\[.*\])(:\d+)?$/;

const isLoopbackUrl = (url: string): boolean =>
  /^\w+:\/\/(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/.test(url);

/** Hides a user and password that the operator wrote into the URL. */
const withoutUser = (url: string): string => url.replace(/\/\/.*@/, '//…@');
