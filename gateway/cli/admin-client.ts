/** Questions to the admin side of a running gateway. */
import { request as startRequest } from 'node:http';
import { UsageError, type Shell } from './command.js';

export type AdminAnswer =
  | { readonly ok: true; readonly status: number; readonly value: unknown }
  | { readonly ok: false; readonly message: string };

const TIMEOUT_MS = 5_000;

/** `--admin`, or what the environment says of the gateway beside, or the default address. */
export function adminAddress(flag: string | undefined, env: Shell['env']): string {
  const written = env['TRIBUTARY_ADMIN_HOST'] ?? '127.0.0.1';
  const host = written.includes(':') ? `[${written}]` : written;
  const address = flag ?? `${host}:${env['TRIBUTARY_ADMIN_PORT'] ?? '18900'}`;
  if (/^(\[[0-9a-f:.]+\]|[^:/\s]+):\d{1,5}$/i.test(address)) return address;
  throw new UsageError(`--admin ${address} is no address (write host:port, as 127.0.0.1:18900)`);
}

/** @returns `ok: false` only when no answer came. */
export async function askAdmin(
  address: string,
  path: string,
  method: 'GET' | 'POST' = 'GET',
): Promise<AdminAnswer> {
  return new Promise((resolve) => {
    const fail = (error: Error): void => {
      resolve({ ok: false, message: `no gateway answers at ${address}: ${wordsOf(error)}` });
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
          resolve({ ok: false, message: `what answers at ${address} is no gateway` });
        }
      });
    });
    request.on('error', fail);
    request.end();
  });
}

/** The sentence of an error that the admin side answered. */
export function errorOf(value: unknown): string {
  if (typeof value !== 'object' || value === null || !('error' in value)) return 'refused';
  const hint = 'hint' in value && typeof value.hint === 'string' ? ` (${value.hint})` : '';
  return `${String(value.error)}${hint}`;
}

function wordsOf(error: Error): string {
  if (error.name === 'TimeoutError' || error.name === 'AbortError') return 'time is over';
  // Several addresses were tried: the message is empty then, the code is not.
  return error.message || String((error as NodeJS.ErrnoException).code);
}
