/** HTTP client for the admin API of a running gateway. */
import { request as startRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { request as startTlsRequest } from 'node:https';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { readRegularFile } from '../../config/regular-file.js';
import { isServiceLink } from '../../config/setting-sources.js';
import { unreadableFile } from '../../config/unreadable-file.js';
import { ADMIN_MARK } from '../admin/reply.js';
import { type Arguments, type Shell, UsageError } from './command.js';

export type AdminAnswer =
  | { readonly ok: true; readonly status: number; readonly value: unknown }
  /** `cause`: the message without its remedy, where it has one. */
  | { readonly ok: false; readonly message: string; readonly cause?: string };

/** Where the admin API is, and what it requires. */
export interface AdminTarget {
  /** host:port */
  readonly address: string;
  readonly token?: string | undefined;
  /** Present: TLS. `ca`: PEM; absent: the root certificates of Node.js. */
  readonly tls?: { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer };
}

const TIMEOUT_MS = 5_000;
/** A gateway that watches writes at least every 15 s. */
const SILENCE_MS = 40_000;

/**
 * @param given with `ADMIN_FLAGS`; the token file may also be in the environment, as for the gateway
 * @throws UsageError for a wrong address or an unreadable file
 */
export function adminTarget(given: Arguments, env: Shell['env']): AdminTarget {
  const address = adminAddress(given.text('admin'), env);
  const tokenFile = given.text('admin-token-file') ?? env['TRIBUTARY_ADMIN_TOKEN_FILE'];
  const file = (name: 'ca' | 'cert' | 'key'): { readonly [N in typeof name]?: Buffer } => {
    const path = given.text(`admin-${name}`);
    return path === undefined ? {} : { [name]: readFile(`--admin-${name}`, path) };
  };
  const tls = { ...file('ca'), ...file('cert'), ...file('key') };
  const isTls = given.isSet('admin-tls') || Object.keys(tls).length > 0;
  return {
    address,
    ...(tokenFile === undefined ? {} : { token: readToken(tokenFile) }),
    ...(isTls ? { tls } : {}),
  };
}

/** @param origin the flag that names the file */
function readFile(origin: string, path: string): Buffer {
  try {
    return readRegularFile(path);
  } catch (error) {
    const { message, remedy } = unreadableFile(path, resolve(path), error);
    const words = remedy === undefined ? message : `${message} (${remedy})`;
    throw new UsageError(`${origin}: ${path} ${words}`);
  }
}

/**
 * `--admin`, else the admin settings in the environment (with the offset of `port_offset`), else the default
 * address.
 */
function adminAddress(flag: string | undefined, env: Shell['env']): string {
  // The gateway accepts an IPv6 address with brackets, as in a URL, and without.
  const written = (env['TRIBUTARY_ADMIN_HOST'] ?? '127.0.0.1').replace(/^\[(.*)\]$/, '$1');
  const host = written.includes(':') ? `[${written}]` : written;
  const address = flag ?? `${host}:${adminPort(env)}`;
  if (isAddress(address)) return address;
  const origin = flag === undefined ? 'TRIBUTARY_ADMIN_HOST and TRIBUTARY_ADMIN_PORT:' : '--admin';
  throw new UsageError(
    `${origin} ${address} is not an address (write host:port, such as 127.0.0.1:18900)`,
  );
}

/** A header cannot carry anything else. */
function readToken(path: string): string {
  const token = readFile('--admin-token-file', path).toString().trim();
  if (/^[!-~]+$/.test(token)) return token;
  throw new UsageError(`--admin-token-file: ${path} must have one token without white space`);
}

/** `host:port`, with an IPv6 address in brackets, and a port from 1 to 65535. */
export function isAddress(text: string): boolean {
  const port = /^(?:\[[0-9a-f:.]+\]|[^:/\s]+):(\d{1,5})$/i.exec(text)?.[1];
  return port !== undefined && Number(port) >= 1 && Number(port) <= 65_535;
}

function adminPort(env: Shell['env']): string {
  const name = 'TRIBUTARY_ADMIN_PORT';
  const { [name]: written = '18900' } = env;
  const port = isServiceLink(name, written) ? '18900' : written;
  const offset = env['TRIBUTARY_PORT_OFFSET'] ?? '0';
  // Otherwise the command would reach another gateway.
  if (!/^\d+$/.test(offset))
    throw new UsageError(
      `TRIBUTARY_PORT_OFFSET: ${JSON.stringify(offset)} is not a whole number (write a count, such as 100)`,
    );
  // A wrong text stays as written, so that the error shows it.
  return /^\d+$/.test(port) ? String(Number(port) + Number(offset)) : port;
}

export type LinesEnd =
  | { readonly ok: true }
  | { readonly ok: false; readonly isRefused: boolean; readonly message: string };

/**
 * Reads an answer without an end, line by line; empty lines are left out.
 *
 * @param onLine returns false to end it
 * @returns `ok: true` after `onLine` ended it; `isRefused`: the gateway responded with an error
 */
export async function readAdminLines(
  { address, token, tls }: AdminTarget,
  path: string,
  onLine: (line: string) => boolean,
): Promise<LinesEnd> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => {
      const { message } = notReached(address, error, tls);
      resolve({ ok: false, isRefused: false, message });
    };
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const url = `${tls ? 'https' : 'http'}://${address}${path}`;
    const take = (response: IncomingMessage): void => {
      if (response.headers[ADMIN_MARK.header] !== ADMIN_MARK.value) {
        resolve({ ok: false, isRefused: false, message: notAdmin(address) });
        response.destroy();
        return;
      }
      let isLast = false;
      const lines = createInterface({ input: response });
      lines.on('line', (line) => {
        if (line === '' || isLast) return;
        try {
          if (response.statusCode !== 200) {
            const message = errorOf(JSON.parse(line));
            resolve({ ok: false, isRefused: true, message });
          } else isLast = !onLine(line);
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
        }
        if (!isLast) return;
        resolve({ ok: true });
        request.destroy();
      });
      response.on('error', fail);
      // Node.js passes errors of the input on to the reader of lines.
      lines.on('error', fail);
      response.on('close', () => {
        const message = `the gateway at ${address} ended the answer`;
        resolve({ ok: false, isRefused: false, message });
      });
    };
    const request = (tls ? startTlsRequest : startRequest)(url, { headers, ...tls }, take);
    request.setTimeout(SILENCE_MS, () => request.destroy(new Error('silence')));
    request.on('error', fail);
    request.end();
  });
}

/**
 * @param timeoutMs for the whole answer
 * @returns `ok: false` only if no gateway responded; an error status is `ok: true`.
 */
export async function askAdmin(
  { address, token, tls }: AdminTarget,
  path: string,
  method: 'GET' | 'POST' = 'GET',
  timeoutMs = TIMEOUT_MS,
): Promise<AdminAnswer> {
  return new Promise((resolve) => {
    const fail = (error: Error): void => {
      resolve({ ok: false, ...notReached(address, error, tls) });
    };
    const signal = AbortSignal.timeout(timeoutMs);
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const options: RequestOptions = { method, signal, headers, ...tls };
    const url = `${tls ? 'https' : 'http'}://${address}${path}`;
    const request = (tls ? startTlsRequest : startRequest)(url, options, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', fail);
      response.on('end', () => {
        resolve(answerIn(response, Buffer.concat(chunks).toString(), address));
      });
    });
    request.on('error', fail);
    request.end();
  });
}

function answerIn(response: IncomingMessage, body: string, address: string): AdminAnswer {
  if (response.headers[ADMIN_MARK.header] !== ADMIN_MARK.value) {
    return { ok: false, message: notAdmin(address) };
  }
  try {
    return { ok: true, status: response.statusCode ?? 0, value: JSON.parse(body) as unknown };
  } catch {
    return { ok: false, message: `the gateway at ${address} sent a response that is not JSON` };
  }
}

/** The message of an error response of the admin API. */
export function errorOf(value: unknown): string {
  if (typeof value !== 'object' || value === null || !('error' in value)) return 'refused';
  const hint = 'hint' in value && typeof value.hint === 'string' ? ` (${value.hint})` : '';
  return `${String(value.error)}${hint}`;
}

/** It is the port of clients or of probes, or another server. */
const notAdmin = (address: string): string =>
  `${address} is not the admin address of a gateway (write --admin HOST:PORT; the port is 18900 by default)`;

const START = 'start one with tributary serve, or give its admin address with --admin HOST:PORT';

function notReached(
  address: string,
  error: Error,
  tls: AdminTarget['tls'],
): { readonly message: string; readonly cause: string } {
  const [words, remedy] = troubleOf(error, tls !== undefined);
  const cause = `no gateway responds at ${address}: ${words}`;
  return { cause, message: remedy === undefined ? cause : `${cause} (${remedy})` };
}

/** @returns the cause, and the remedy if there is one */
function troubleOf(error: Error, isTls: boolean): readonly [string, string?] {
  if (error.name === 'TimeoutError' || error.name === 'AbortError') return ['timeout', START];
  const { code = '' } = error as NodeJS.ErrnoException;
  if (code === 'ECONNREFUSED') return ['connection refused', START];
  if (code === 'ENOTFOUND') return ['no host has this name', START];
  if (isTls && /WRONG_VERSION_NUMBER|EPROTO|PACKET_LENGTH/.test(code)) {
    return ['it does not use TLS', 'leave out --admin-tls, --admin-ca, --admin-cert, --admin-key'];
  }
  if (/UNABLE_TO|SELF_SIGNED/.test(code)) {
    return ['no known CA signed its certificate', 'give its CA with --admin-ca FILE'];
  }
  if (!isTls && code === 'ECONNRESET') {
    return ['it ended the connection', 'if it uses TLS, add --admin-tls, or --admin-ca FILE'];
  }
  // After attempts at several addresses Node leaves the message empty, but not the code.
  return [error.message.trim() || code];
}

/** @returns a query with its `?`, without the undefined parameters; empty if there are none */
export function queryOf(parameters: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== undefined) query.set(key, value);
  }
  return query.size === 0 ? '' : `?${query.toString()}`;
}
