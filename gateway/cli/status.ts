/** `status` and `clients`: what each client holds, and from which source. */
import type { ClientStatus, ServedFrom, TypeStatus } from '../admin/status.js';
import { adminTarget } from './admin-client.js';
import { askForClients, type ClientList } from './client-pages.js';
import { ADMIN_FLAGS, type Command } from './command.js';
import { tellAnswer, TEXT_OUTPUT } from './output.js';
import { tableText } from './table.js';

export const status: Command = {
  name: 'status',
  positionals: [],
  flags: [...ADMIN_FLAGS, TEXT_OUTPUT],
  meaning: 'Prints for each client and type whether it holds what is served, and from where.',
  run: async (given, shell) => {
    const answer = await askForClients(adminTarget(given, shell.env), '/status');
    return tellAnswer(answer, given, shell, (value) =>
      statusText(value as ClientList<ClientStatus>),
    );
  },
};

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

function statusText({ clients }: ClientList<ClientStatus>): string {
  if (clients.length === 0) return 'no client is connected\n';
  return tableText([
    ['CLIENT', 'NODE', 'IDENTITY', 'TYPE', 'STATE', 'NAMES', 'SERVED FROM'],
    ...clients.flatMap(({ peer, node, identity, types }) => {
      const who = [peer, node?.id ?? '-', identity];
      if (types.length === 0) return [[...who, '-', 'no subscription', '0', '-']];
      return types.map((one) => [
        ...who,
        one.type,
        stateText(one),
        String(one.names),
        one.servedFrom.map(originText).join(', ') || '-',
      ]);
    }),
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
