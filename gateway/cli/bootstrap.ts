/** `bootstrap`: prints the bootstrap for a client of this gateway. */
import { stringify } from 'yaml';
import type { AuthorityMap } from '../../config/model.js';
import { didYouMean } from '../../config/nearest.js';
import { formatProblem } from '../../config/problems.js';
import { isAddress } from './admin-client.js';
import { envoyBootstrap, grpcBootstrap, type ClientBootstrapOptions } from './client-bootstraps.js';
import { type Arguments, type Command, EXIT, type Flag, UsageError } from './command.js';

const DEFAULT_GATEWAY = '127.0.0.1:18000';

const FLAGS: readonly Flag[] = [
  {
    name: 'gateway',
    value: 'HOST:PORT',
    meaning: `Address of the gateway for clients. Default: ${DEFAULT_GATEWAY}.`,
  },
  {
    name: 'fallback',
    value: 'HOST:PORT',
    meaning: 'Address of a second gateway, which the client uses while the first one is down.',
  },
  { name: 'node-id', value: 'ID', meaning: 'The id of the client. Default: my-client.' },
  {
    name: 'node-cluster',
    value: 'NAME',
    meaning: 'The cluster of the client. Default: my-cluster.',
  },
  {
    name: 'authority',
    value: 'NAME',
    meaning: 'The client uses xdstp:// names of this authority. Default: old-style names.',
  },
  {
    name: 'path',
    value: 'PATH',
    meaning: 'The beginning of its xdstp:// names, such as edge/. Default: none.',
  },
  {
    name: 'authority-map',
    value: 'FILE',
    meaning:
      'Lists the authorities of this map. Without old_style_names, its first one is --authority.',
  },
  {
    name: 'ca',
    value: 'FILE',
    meaning: 'Path on the host of the client: the CA of the gateway (PEM). Default: plaintext.',
  },
  {
    name: 'cert',
    value: 'FILE',
    meaning: 'Path on that host: the certificate of the client (PEM), with --key.',
  },
  { name: 'key', value: 'FILE', meaning: 'Path on that host: its key (PEM), with --cert.' },
  {
    name: 'output',
    short: 'o',
    value: 'FORM',
    choices: ['json', 'yaml'],
    meaning: 'Form of the output. Default: yaml for Envoy, json for gRPC.',
  },
];

export const bootstrap: Command = {
  name: 'bootstrap',
  positionals: [{ name: 'envoy|grpc', choices: ['envoy', 'grpc'] }],
  flags: FLAGS,
  meaning: 'Prints the bootstrap for an Envoy or a gRPC client of the gateway.',
  run: async (given, shell) => {
    // Other commands start without loading what reads the map.
    const { loadAuthorityMap } = await import('../../config/authority-map.js');
    const [kind] = given.positionals;
    const file = given.text('authority-map');
    const loaded = file === undefined ? undefined : loadAuthorityMap(file);
    if (loaded?.ok === false) {
      for (const problem of loaded.problems) shell.err(`${formatProblem(problem)}\n`);
      return EXIT.no;
    }
    const options = optionsOf(given, loaded?.map);
    const value = kind === 'envoy' ? envoyBootstrap(options) : grpcBootstrap(options);
    const form = given.text('output') ?? (kind === 'envoy' ? 'yaml' : 'json');
    const yaml = (): string => stringify(value, { aliasDuplicateObjects: false });
    shell.out(form === 'json' ? `${JSON.stringify(value, undefined, 2)}\n` : yaml());
    return EXIT.ok;
  },
};

function optionsOf(given: Arguments, map: AuthorityMap | undefined): ClientBootstrapOptions {
  const first = addressOf(given, 'gateway') ?? DEFAULT_GATEWAY;
  const second = addressOf(given, 'fallback');
  const authorities = [...(map?.authorities.keys() ?? [])];
  checkAuthority(given.text('authority'), map);
  const authority = given.text('authority') ?? (map?.oldStyle ? undefined : authorities[0]);
  const path = given.text('path') ?? '';
  const [ca, cert, key] = [given.text('ca'), given.text('cert'), given.text('key')];
  if ((cert === undefined) !== (key === undefined)) {
    throw new UsageError('--cert and --key belong together');
  }
  if (ca === undefined && cert !== undefined) throw new UsageError('--cert needs --ca');
  return {
    gateways: second === undefined ? [first] : [first, second],
    nodeId: given.text('node-id') ?? 'my-client',
    nodeCluster: given.text('node-cluster') ?? 'my-cluster',
    ...(authority === undefined ? {} : { authority }),
    authorities,
    path: path === '' || path.endsWith('/') ? path : `${path}/`,
    ...(ca === undefined
      ? {}
      : {
          tls: {
            ca,
            ...(cert === undefined ? {} : { cert }),
            ...(key === undefined ? {} : { key }),
          },
        }),
  };
}

/** @throws UsageError if the map would not serve the client */
function checkAuthority(name: string | undefined, map: AuthorityMap | undefined): void {
  if (name === undefined || !map || map.defaultSource || map.authorities.has(name)) return;
  const hint = didYouMean(name, [...map.authorities.keys()]);
  const remedy = hint === undefined ? '' : ` (${hint})`;
  throw new UsageError(`--authority: the map has no authority ${JSON.stringify(name)}${remedy}`);
}

function addressOf(given: Arguments, flag: string): string | undefined {
  const address = given.text(flag);
  if (address === undefined || isAddress(address)) return address;
  throw new UsageError(
    `--${flag} ${address} is not an address (write host:port, with a port from 1 to 65535)`,
  );
}
