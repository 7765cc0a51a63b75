/** Reads the parts that all forms of a source share: target, TLS, headers, rate limit. */
import { isGrpcHeaderName } from './header-names.js';
import type { Cursor } from './cursor.js';
import { DEFAULT_RATE_LIMIT } from './defaults.js';
import type { ClientTlsSpec, MetadataSpec } from './model.js';
import type { TlsFileRole } from './tls-files.js';

/** What a source entry needs from the rest of the file. */
export interface SourceContext {
  /** Resolves a path relative to the map file. Reports a missing file and then returns `undefined`. */
  readonly existingPath: (at: Cursor, what: string) => string | undefined;
  /** Checks the contents of the files, and reports at the place of each. */
  readonly checkTls: (spec: ClientTlsSpec, at: Readonly<Record<TlsFileRole, Cursor>>) => void;
  readonly clusters: ReadonlyMap<string, Endpoint>;
  readonly clusterUsed: (name: string) => void;
}

export type FileChecks = Pick<SourceContext, 'existingPath' | 'checkTls'>;

/** The address of a server. `tls: null` is plaintext, for which the operator wrote `insecure: true`. */
export interface Endpoint {
  readonly target: string;
  readonly tls: ClientTlsSpec | null;
}

/** Envoy's RateLimitSettings. The short form of a source has the same fields. */
export function readRateLimit(
  at: Cursor,
): { readonly maxTokens: number; readonly fillRatePerSecond: number } | undefined {
  if (at.object() === undefined) return undefined;
  return {
    maxTokens: at.field('max_tokens').number() ?? DEFAULT_RATE_LIMIT.maxTokens,
    fillRatePerSecond: at.field('fill_rate').number() ?? DEFAULT_RATE_LIMIT.fillRatePerSecond,
  };
}

/** Requires both or neither: a certificate is useless without its key. */
export function checkKeyPair(at: Cursor, certificate: string, key: string): void {
  const has = (name: string): boolean => at.field(name).present;
  if (has(certificate) === has(key)) return;
  const [present, absent] = has(certificate) ? [certificate, key] : [key, certificate];
  at.field(present).problem(`needs ${absent} too`, undefined, 'key');
}

/** Omits absent fields, so that specs compare by value. */
export function tlsSpec(spec: {
  readonly rootCertsFile: string | undefined;
  readonly certChainFile: string | undefined;
  readonly privateKeyFile: string | undefined;
  readonly requiredSans?: readonly string[];
  readonly serverName?: string | undefined;
}): ClientTlsSpec {
  const { rootCertsFile, certChainFile, privateKeyFile, requiredSans = [], serverName } = spec;
  return {
    ...(rootCertsFile === undefined ? {} : { rootCertsFile }),
    ...(certChainFile === undefined ? {} : { certChainFile }),
    ...(privateKeyFile === undefined ? {} : { privateKeyFile }),
    requiredSans,
    ...(serverName === undefined ? {} : { serverName }),
  };
}

/** Headers with lower-cased keys (gRPC metadata) and printable values. Secrets come from files. */
export function readMetadata(list: Cursor, context: SourceContext): readonly MetadataSpec[] {
  return list.items().flatMap((item): readonly MetadataSpec[] => {
    const name = item.field('key').string()?.toLowerCase();
    const value = item.field('value');
    const valueFile = item.field('value_file');
    if (name === undefined || name === '') return [];
    if (!isGrpcHeaderName(name)) {
      item.field('key').problem(`${JSON.stringify(name)} is not a header name that gRPC allows`);
    }
    if (value.present === valueFile.present) {
      if (item.field('raw_value').present) return [];
      item.problem('must have exactly one of value and value_file');
      return [];
    }
    if (value.present) {
      const text = value.string();
      if (text !== undefined && !/^[\x20-\x7e]*$/.test(text)) {
        value.problem('must be printable ASCII');
      }
      return text === undefined ? [] : [{ key: name, value: text }];
    }
    const file = context.existingPath(valueFile, 'file');
    return file === undefined ? [] : [{ key: name, valueFile: file }];
  });
}

/** The short form of TLS: `tls: { ca, cert, key, sans, server_name }`, in sources and clusters. */
function readTls(tls: Cursor, context: FileChecks): ClientTlsSpec {
  const file = (name: string): string | undefined => {
    const at = tls.field(name);
    return at.present ? context.existingPath(at, 'file') : undefined;
  };
  checkKeyPair(tls, 'cert', 'key');
  const spec = tlsSpec({
    rootCertsFile: file('ca'),
    certChainFile: file('cert'),
    privateKeyFile: file('key'),
    requiredSans: tls
      .field('sans')
      .items()
      .flatMap((san) => san.string() ?? []),
    serverName: tls.field('server_name').string(),
  });
  context.checkTls(spec, { ca: tls.field('ca'), cert: tls.field('cert'), key: tls.field('key') });
  return spec;
}

/** `tls` or `insecure: true` of an entry in the short form. Without both: TLS with the default roots. */
export function readSecurity(entry: Cursor, context: FileChecks): ClientTlsSpec | null {
  const tls = entry.field('tls');
  if (entry.field('insecure').boolean() !== true) return readTls(tls, context);
  if (tls.present) tls.problem('contradicts insecure: true', 'keep tls or insecure: true', 'key');
  return null;
}
