/** Checks the files that the settings name, before the gateway needs them. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { adminTokenIn, publicKeysIn, type Read } from './listener-secrets.js';
import type { MapFiles } from './map-files.js';
import { checkTlsFiles, type TlsFileRole } from './tls-files.js';
import { whyUnwritable } from './unwritable-file.js';

export interface SettingFileFinding {
  /** The setting that names the file. */
  readonly key: string;
  readonly message: string;
  readonly remedy?: string;
  /** The gateway can start. */
  readonly isHarmless: boolean;
}

/** Files without which no listener starts. */
const NEEDED = [
  ...['client', 'admin'].flatMap((listener) =>
    ['cert', 'key', 'client_ca'].map((name) => `${listener}.tls.${name}`),
  ),
  'client.jwt.jwks',
  'admin.token_file',
];
const CONTENT = [
  ['client.jwt.jwks', publicKeysIn],
  ['admin.token_file', adminTokenIn],
] as const;
/** The gateway starts without its peers. */
const OF_PEERS = [
  ...['ca', 'cert', 'key'].map((name) => `nats.tls.${name}`),
  ...['credentials_file', 'password_file', 'token_file'].map((name) => `nats.${name}`),
];

/** @param get the value of a setting: an absolute path, or null */
export function checkSettingFiles(
  get: (key: string) => unknown,
  files: MapFiles,
): readonly SettingFileFinding[] {
  const missing = [...NEEDED, ...OF_PEERS].flatMap((key) => {
    const path = get(key);
    return typeof path === 'string' ? unreadable(key, path, files) : [];
  });
  const wrong = (['client', 'admin', 'nats'] as const).flatMap((section) =>
    checkPair(section, get, files),
  );
  const ofSecrets = CONTENT.flatMap(([key, read]) => checkContent(key, read, get, files));
  return [...missing, ...wrong, ...ofSecrets, ...checkStateFile(get, files), ...checkStore(get)];
}

/** The gateway serves clients without its state file. */
function checkStateFile(
  get: (key: string) => unknown,
  files: MapFiles,
): readonly SettingFileFinding[] {
  const [key, path] = ['state_file', get('state_file')];
  if (typeof path !== 'string') return [];
  const found = files.at(path);
  // The first start creates the file.
  const isNew = typeof found !== 'string' && found.isMissing === true;
  const [unreadable] = isNew ? [] : unreadableAt(key, path, found);
  const unwritable = whyUnwritable(path);
  if (unreadable !== undefined) return [{ ...unreadable, isHarmless: true }];
  if (unwritable === undefined) return [];
  const { words, ...remedy } = unwritable;
  return [{ key, message: `${path} cannot be written: ${words}`, ...remedy, isHarmless: true }];
}

/** The gateway serves clients without the content on disk, and creates the directory. */
function checkStore(get: (key: string) => unknown): readonly SettingFileFinding[] {
  const [key, path] = ['content_dir', get('content_dir')];
  if (typeof path !== 'string') return [];
  let existing = path;
  while (!existsSync(existing) && dirname(existing) !== existing) existing = dirname(existing);
  const unwritable = whyUnwritable(join(existing, 'a file'));
  if (unwritable === undefined) return [];
  const { words, ...remedy } = unwritable;
  return [{ key, message: `${path} cannot be used: ${words}`, ...remedy, isHarmless: true }];
}

/** @param read of what the file must contain */
function checkContent(
  key: string,
  read: (text: string) => Read<unknown>,
  get: (key: string) => unknown,
  files: MapFiles,
): readonly SettingFileFinding[] {
  const content = contentOf(get(key), files);
  const found = content && read(content.toString());
  if (!found || found.ok) return [];
  return [{ key, message: found.words, remedy: found.remedy, isHarmless: false }];
}

/** @returns undefined: not set, or not readable, which is another finding */
function contentOf(path: unknown, files: MapFiles): Buffer | undefined {
  if (typeof path !== 'string' || files.at(path) !== 'file') return undefined;
  try {
    return files.read?.(path);
  } catch {
    return undefined;
  }
}

function unreadable(key: string, path: string, files: MapFiles): readonly SettingFileFinding[] {
  const findings = unreadableAt(key, path, files.at(path));
  if (findings.length > 0) return findings;
  try {
    files.read?.(path);
    return [];
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return [{ key, message, isHarmless: OF_PEERS.includes(key) }];
  }
}

function unreadableAt(
  key: string,
  path: string,
  found: ReturnType<MapFiles['at']>,
): readonly SettingFileFinding[] {
  const isHarmless = OF_PEERS.includes(key);
  if (found === 'file') return [];
  if (found === 'directory') {
    const message = `${path} is a directory`;
    return [{ key, message, remedy: 'write the path of a file', isHarmless }];
  }
  const { words, isMissing, ...remedy } = found;
  const message = isMissing ? `no file at ${path}` : `${path} cannot be read: ${words}`;
  return [{ key, message, ...remedy, isHarmless }];
}

/** Finds a certificate and a key that do not fit, or that no connection could use. */
function checkPair(
  section: 'client' | 'admin' | 'nats',
  get: (key: string) => unknown,
  files: MapFiles,
): readonly SettingFileFinding[] {
  const keyOf: Readonly<Record<TlsFileRole, string>> = {
    ca: `${section}.tls.${section === 'nats' ? 'ca' : 'client_ca'}`,
    cert: `${section}.tls.cert`,
    key: `${section}.tls.key`,
  };
  const of = (role: TlsFileRole): Buffer | undefined => contentOf(get(keyOf[role]), files);
  const contents = { ca: of('ca'), cert: of('cert'), key: of('key') };
  return checkTlsFiles(contents, files.nowMs).map((finding) => ({
    key: keyOf[finding.role],
    message: finding.message,
    remedy: finding.remedy,
    isHarmless: section === 'nats' || finding.isHarmless === true || finding.isOutdated === true,
  }));
}
