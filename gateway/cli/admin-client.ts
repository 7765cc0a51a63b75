/** HTTP client for the admin API of a running gateway. */
import { request as startRequest } from 'node:http';
import { UsageError, type Shell } from './command.js';

export type AdminAnswer =
  | { readonly ok: true; readonly status: number; readonly value: unknown }
  | { readonly ok: false; readonly message: string };

const TIMEOUT_MS = 5_000;

/** `--admin`, else the admin settings in the environment, else the default address. */
export function adminAddress(flag: string | undefined, env: Shell['env']): string {
  const written = env['TRIBUTARY_ADMIN_HOST'] ?? '127.0.0.1';
  const host = written.includes(':') ? `[${written}]` : written;
  const address = flag ?? `${host}:${env['TRIBUTARY_ADMIN_PORT'] ?? '18900'}`;
  if (/^(\[[0-9a-f:.]+\]|[^:/\s]+):\d{1,5}$/i.test(address)) return address;
  throw new UsageError(
    `--admin ${address} is not an address (write host:port, e.g. 127.0.0.1:18900)`,
  );
}

/** @returns `ok: false` only if no gateway responded; an error status is `ok: true`. */
export async function askAdmin(
  address: string,
  path: string,
  method: 'GET' | 'POST' = 'GET',
): Promise<AdminAnswer> {
  return new Promise((resolve) => {
    const fail = (error: Error): void => {
      resolve({ ok: false, message: `no gateway responds at ${address}: ${wordsOf(error)}` });
    };
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const request = startRequest(`http://${address}${path}`, { method, signal }, (response) => {
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
