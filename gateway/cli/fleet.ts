/**
 * `status --fleet`: the clients of several instances. The addresses come from the command line alone. Instances know
 * each other over NATS only, and every client of NATS with the permission may publish anything there: an address from
 * there could lead to an attacker, and the request would carry the admin token to it.
 */
import type { ClientStatus } from '../admin/status.js';
import { errorOf, isAddress, type AdminTarget } from './admin-client.js';
import { askForClients, type ClientList } from './client-pages.js';
import { EXIT, UsageError, type ExitCode } from './command.js';

/** One instance: its clients, or why they are unknown. */
export type InstanceStatus =
  | ({ readonly instance: string } & ClientList<ClientStatus>)
  | { readonly instance: string; readonly error: string };

export interface FleetStatus {
  readonly instances: readonly InstanceStatus[];
}

/** Asked at the same time. A count. */
const AT_A_TIME = 8;

/**
 * @param text `HOST:PORT,HOST:PORT`
 * @returns the addresses in their order, each once
 * @throws UsageError
 */
export function fleetAddresses(text: string): readonly string[] {
  const addresses = [...new Set(text.split(',').map((one) => one.trim()))];
  const wrong = addresses.find((one) => !isAddress(one));
  if (wrong === undefined) return addresses;
  throw new UsageError(
    `--fleet: "${wrong}" is not an address (write host:port,host:port, e.g. gw-1:18900,gw-2:18900)`,
  );
}

/**
 * Asks each address, with the token and the TLS of `target`.
 *
 * @returns the exit code: `unreachable` if an instance did not respond, `no` if one refused
 */
export async function askFleet(
  target: AdminTarget,
  addresses: readonly string[],
): Promise<{ readonly status: FleetStatus; readonly code: ExitCode }> {
  const left = [...addresses.entries()];
  const instances: InstanceStatus[] = [];
  const codes: ExitCode[] = [EXIT.ok];
  const work = async (): Promise<void> => {
    for (let next = left.shift(); next; next = left.shift()) {
      const [at, instance] = next;
      const answer = await askForClients({ ...target, address: instance }, '/status');
      if (!answer.ok) {
        codes.push(EXIT.unreachable);
        instances[at] = { instance, error: answer.cause ?? answer.message };
      } else if (answer.status === 200) {
        instances[at] = { instance, ...(answer.value as ClientList<ClientStatus>) };
      } else {
        codes.push(EXIT.no);
        instances[at] = { instance, error: errorOf(answer.value) };
      }
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, work));
  return { status: { instances }, code: Math.max(...codes) };
}
