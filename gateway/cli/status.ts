/** `status` and `clients`: what each client holds, and from which source. */
import type { ClientStatus, ServedFrom, TypeStatus } from '../admin/status.js';
import { adminTarget } from './admin-client.js';
import { askForClients, type ClientList } from './client-pages.js';
import {
  ADMIN_FLAGS,
  UsageError,
  type Arguments,
  type Command,
  type ExitCode,
  type Shell,
} from './command.js';
import { askFleet, fleetAddresses, type FleetStatus } from './fleet.js';
import { printed, tellAnswer, TEXT_OUTPUT } from './output.js';
import { tableText } from './table.js';

export const status: Command = {
  name: 'status',
  positionals: [],
  flags: [
    {
      name: 'fleet',
      value: 'HOST:PORT,…',
      meaning: 'Admin addresses of several instances: the clients of all of them.',
    },
    ...ADMIN_FLAGS,
    TEXT_OUTPUT,
  ],
  meaning: 'Prints for each client and type whether it holds what is served, and from where.',
  run: async (given, shell) => {
    const fleet = given.text('fleet');
    if (fleet !== undefined) return fleetStatus(fleet, given, shell);
    const answer = await askForClients(adminTarget(given, shell.env), '/status');
    return tellAnswer(answer, given, shell, (value) =>
      statusText(value as ClientList<ClientStatus>),
    );
  },
};

async function fleetStatus(fleet: string, given: Arguments, shell: Shell): Promise<ExitCode> {
  if (given.text('admin') !== undefined) {
    throw new UsageError('--admin and --fleet are both set (write every address after --fleet)');
  }
  const addresses = fleetAddresses(fleet);
  const { status: found, code } = await askFleet(adminTarget(given, shell.env), addresses);
  shell.out(printed(found, given, fleetText(found)));
  return code;
}

export const clients: Command = {
  name: 'clients',
  positionals: [],
  flags: [...ADMIN_FLAGS, TEXT_OUTPUT],
  meaning: 'Prints the clients: address, identity, node, protocol, and number of names.',
  run: async (given, shell) => {
    const answer = await askForClients(adminTarget(given, shell.env), '/clients');
    return tellAnswer(answer, given, shell, (value) => clientsText(value as ClientList<ClientRow>));
  },
};

/** The fields of `/clients` in the table. */
interface ClientRow extends Pick<ClientStatus, 'id' | 'peer' | 'identity' | 'node' | 'protocol'> {
  readonly service: string;
  readonly since: string;
  readonly names: number;
}

function clientsText({ clients }: ClientList<ClientRow>): string {
  if (clients.length === 0) return 'no client is connected\n';
  return tableText([
    ['ID', 'ADDRESS', 'IDENTITY', 'NODE', 'PROTOCOL', 'SERVICE', 'SINCE', 'NAMES'],
    ...clients.map((one) => [
      String(one.id),
      one.peer,
      one.identity,
      one.node?.id ?? '-',
      one.protocol,
      one.service,
      one.since,
      String(one.names),
    ]),
  ]);
}

const STATUS_TITLES = ['CLIENT', 'NODE', 'IDENTITY', 'TYPE', 'STATE', 'NAMES', 'SERVED FROM'];

function statusText({ clients }: ClientList<ClientStatus>): string {
  if (clients.length === 0) return 'no client is connected\n';
  return tableText([STATUS_TITLES, ...clients.flatMap(statusRows)]);
}

/** With a row for each instance that has no clients, or that did not say which. */
function fleetText({ instances }: FleetStatus): string {
  const rows = instances.flatMap((one) => {
    if ('error' in one) return [[one.instance, '-', '-', '-', '-', one.error, '-', '-']];
    if (one.clients.length === 0) {
      return [[one.instance, '-', '-', '-', '-', 'no client is connected', '0', '-']];
    }
    return one.clients.flatMap(statusRows).map((cells) => [one.instance, ...cells]);
  });
  return tableText([['INSTANCE', ...STATUS_TITLES], ...rows]);
}

function statusRows({ peer, node, identity, types }: ClientStatus): readonly string[][] {
  const client = [peer, node?.id ?? '-', identity];
  if (types.length === 0) return [[...client, '-', 'no subscription', '0', '-']];
  return types.map((one) => [
    ...client,
    one.type,
    stateText(one),
    String(one.names),
    one.servedFrom.map(originText).join(', ') || '-',
  ]);
}

function stateText({ state, since, reason }: TypeStatus): string {
  const time = since === undefined ? '' : ` since ${since}`;
  return `${state}${time}${reason === undefined ? '' : `: ${reason}`}`;
}

function originText({ authority, source, failover, groups }: ServedFrom): string {
  const many = groups === 1 ? '' : `, ${groups} groups`;
  return `${authority} from ${source ?? 'no source'} (${failover}${many})`;
}
