/** HTTP client for the admin API of a running gateway. */
import { readFileSync } from 'node:fs';
import { request as startRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { request as startTlsRequest } from 'node:https';
import { createInterface } from 'node:readline';
import { type Arguments, type Shell, UsageError } from './command.js';

export type AdminAnswer =
  | { readonly ok: true; readonly status: number; readonly value: unknown }
  | { readonly ok: false; readonly message: string };

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
    return path === undefined ? {} : { [name]: readFile(path) };
  };
  const tls = { ...file('ca'), ...file('cert'), ...file('key') };
  const isTls = given.isSet('admin-tls') || Object.keys(tls).length > 0;
  return {
    address,
    ...(tokenFile === undefined ? {} : { token: readFile(tokenFile).toString().trim() }),
    ...(isTls ? { tls } : {}),
  };
}

function readFile(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

/**
 * `--admin`, else the admin settings in the environment (with the offset of `port_offset`), else the default
 * address.
 */
function adminAddress(flag: string | undefined, env: Shell['env']): string {
  const written = env['TRIBUTARY_ADMIN_HOST'] ?? '127.0.0.1';
  const host = written.includes(':') ? `[${written}]` : written;
  const address = flag ?? `${host}:${adminPort(env)}`;
  if (/^(\[[0-9a-f:.]+\]|[^:/\s]+):\d{1,5}$/i.test(address)) return address;
  throw new UsageError(
    `--admin ${address} is not an address (write host:port, e.g. 127.0.0.1:18900)`,
  );
}

function adminPort(env: Shell['env']): string {
  const port = env['TRIBUTARY_ADMIN_PORT'] ?? '18900';
  const offset = env['TRIBUTARY_PORT_OFFSET'] ?? '0';
  // A wrong text stays as written, so that the error shows it.
  return /^\d+$/.test(port) && /^\d+$/.test(offset) ? String(Number(port) + Number(offset)) : port;
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
      const message = `no gateway responds at ${address}: ${wordsOf(error)}`;
      resolve({ ok: false, isRefused: false, message });
    };
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const url = `${tls ? 'https' : 'http'}://${address}${path}`;
    const take = (response: IncomingMessage): void => {
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

/** @returns `ok: false` only if no gateway responded; an error status is `ok: true`. */
export async function askAdmin(
  { address, token, tls }: AdminTarget,
  path: string,
  method: 'GET' | 'POST' = 'GET',
): Promise<AdminAnswer> {
  return new Promise((resolve) => {
    const fail = (error: Error): void => {
      resolve({ ok: false, message: `no gateway responds at ${address}: ${wordsOf(error)}` });
    };
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const options: RequestOptions = { method, signal, headers, ...tls };
    const url = `${tls ? 'https' : 'http'}://${address}${path}`;
    const request = (tls ? startTlsRequest : startRequest)(url, options, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', fail);
      response.on('end', () => {
        try {
          const value: unknown = JSON.parse(Buffer.concat(chunks).toString());
          resolve({ ok: true, status: response.statusCode ?? 0, value });
        } catch {
          resolve({ ok: false, message: `the server at ${address} is not a Tributary gateway` });
        }
      });
    });
    request.on('error', fail);
    request.end();
  });
}

/** The message of an error response of the admin API. */
export function errorOf(value: unknown): string {
  if (typeof value !== 'object' || value === null || !('error' in value)) return 'refused';
  const hint = 'hint' in value && typeof value.hint === 'string' ? ` (${value.hint})` : '';
  return `${String(value.error)}${hint}`;
}

function wordsOf(error: Error): string {
  if (error.name === 'TimeoutError' || error.name === 'AbortError') return 'timeout';
  // After attempts at several addresses Node leaves the message empty, but not the code.
  return error.message || String((error as NodeJS.ErrnoException).code);
}

/** @returns a query with its `?`, without the undefined parameters; empty if there are none */
export function queryOf(parameters: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== undefined) query.set(key, value);
  }
  return query.size === 0 ? '' : `?${query.toString()}`;
}
