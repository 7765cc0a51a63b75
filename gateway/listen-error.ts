/** The error of a listener that cannot start, in words that an operator can act on. */

export type ListenErrorCode =
  'address_in_use' | 'address_not_here' | 'port_needs_privilege' | 'listen_failed';

/** A listener cannot start. The message has the address, the cause and a remedy. */
export class ListenError extends Error {
  constructor(
    readonly code: ListenErrorCode,
    /** `host:port` */
    readonly address: string,
    message: string,
    options: ErrorOptions,
  ) {
    super(message, options);
    this.name = 'ListenError';
  }
}

export interface ListenerWords {
  readonly host: string;
  readonly port: number;
  /** The setting of the address, such as `client`: its flags are `--client-host` and `--client-port`. */
  readonly setting: 'client' | 'admin' | 'probe';
}

/** @param error as Node.js reports it (`listen EADDRINUSE: address already in use …`) */
export function listenError({ host, port, setting }: ListenerWords, error: unknown): ListenError {
  const address = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  const system = (error as NodeJS.ErrnoException | null)?.code;
  const [code, cause, remedy] = causeOf(system, setting, error);
  const said = remedy === undefined ? cause : `${cause} (${remedy})`;
  return new ListenError(code, address, `cannot listen on ${address}: ${said}`, { cause: error });
}

function causeOf(
  system: string | undefined,
  setting: ListenerWords['setting'],
  error: unknown,
): readonly [ListenErrorCode, string, string?] {
  const another = `set another port with --${setting}-port or --port-offset`;
  switch (system) {
    case 'EADDRINUSE':
      return [
        'address_in_use',
        'another process uses it, EADDRINUSE',
        `end that process, or ${another}`,
      ];
    case 'EADDRNOTAVAIL':
      return [
        'address_not_here',
        'this machine does not have the address, EADDRNOTAVAIL',
        `correct --${setting}-host: write an address of this machine`,
      ];
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return [
        'address_not_here',
        `no address is known for this name, ${system}`,
        `correct --${setting}-host: write an address of this machine`,
      ];
    case 'EACCES':
      return ['port_needs_privilege', 'the system denies this port, EACCES', another];
    default:
      return ['listen_failed', error instanceof Error ? error.message : String(error)];
  }
}
