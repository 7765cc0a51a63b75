/**
 * The largest message that a client takes, and what is withheld from it for that. A gRPC client ends
 * its stream over a larger message, comes again, and would get it again: for one resource it would lose
 * all others. So such a client gets the last version of the resource that it can take.
 */
import type { Projection } from '../../../authorities/index.js';
import { STATUS_CODE, type ResourceError, type RpcStatus } from '../../../protos/discovery.js';
import { TypedMap } from '../../../protos/typed-map.js';
import { AROUND_RESOURCE_BYTES, fits, roomIn, sizeInMessage } from '../cache/message-size.js';
import type { NameState, ResourceCache } from '../cache/resource-cache.js';

/** As the settings have it: `auto` goes by who the client is, a number of bytes is for every client. */
export type MaxMessage = 'auto' | 'none' | number;

/** What a client says of itself. */
export interface ClientAgent {
  /** `Node.user_agent_name`; empty if it says none. */
  readonly userAgentName: string;
  /** The HTTP header `user-agent`; empty if it sent none. */
  readonly header: string;
}

/** The default of every gRPC library (`grpc.max_receive_message_length`). */
export const GRPC_MAX_MESSAGE_BYTES = 4 * 1_024 * 1_024;

/** `gRPC Go`, `gRPC Java`, `gRPC C-core linux`, `gRPC Node Pure JS`. */
const GRPC_NODE = /^gRPC /;
/** `grpc-go/1.85.0`, `grpc-python/1.85.1 grpc-c/58.0.0 (linux; chttp2)`. */
const GRPC_HEADER = /(^| )grpc-/;

const AROUND_ERROR_BYTES = 32;
/** Of so many it is looked after which of them are still withheld. */
const MANY = 100;

/**
 * The Node counts before the header: an xDS client that was built on a gRPC library has that library's
 * header, and may well take larger messages.
 *
 * @returns in bytes; Infinity: no limit is known
 */
export function maxMessageBytesOf(setting: MaxMessage, agent: ClientAgent): number {
  if (typeof setting === 'number') return setting;
  const { userAgentName, header } = agent;
  const isGrpc = userAgentName === '' ? GRPC_HEADER.test(header) : GRPC_NODE.test(userAgentName);
  return setting === 'auto' && isGrpc ? GRPC_MAX_MESSAGE_BYTES : Infinity;
}

/** The smallest limit that a client may have under this setting. */
export function leastMaxMessageBytesOf(setting: MaxMessage): number {
  if (setting === 'none') return Infinity;
  return setting === 'auto' ? GRPC_MAX_MESSAGE_BYTES : setting;
}

export function errorSize({ name, status }: ResourceError): number {
  return Buffer.byteLength(name) + Buffer.byteLength(status.message) + AROUND_ERROR_BYTES;
}

/** A resource, or all listeners or all clusters, that a client is not sent. */
export interface Withheld {
  readonly typeUrl: string;
  /** Undefined: the whole set of the type. */
  readonly name: string | undefined;
  readonly bytes: number;
  readonly maxBytes: number;
}

export interface MessageLimitOptions {
  readonly cache: Pick<ResourceCache, 'fallbacks' | 'held'>;
  /** Known once the client has sent its first request; undefined: no limit. */
  readonly maxBytesOf: (() => number) | undefined;
  /** Does the client still ask for it, by itself or as a member? */
  readonly isAsked: (projection: Projection) => boolean;
  /** Told once for each version of a resource, and of a set each time it was due. */
  readonly onWithheld: (withheld: Withheld) => void;
}

/** What is told instead of a resource of which the client has no version. */
export const TOO_LARGE: RpcStatus = {
  code: STATUS_CODE.resourceExhausted,
  message: 'the resource is larger than a message that the client takes',
};

/** Of one client. */
export class MessageLimit {
  readonly #options: MessageLimitOptions;
  readonly #resources = new TypedMap<Projection>();
  readonly #sets = new Map<string, Withheld>();

  constructor(options: MessageLimitOptions) {
    this.#options = options;
  }

  /** Infinity: none. */
  get maxBytes(): number {
    return this.#options.maxBytesOf?.() ?? Infinity;
  }

  /** Does the client take this, alone in a message? */
  takes(projection: Projection): boolean {
    return fits(projection, this.maxBytes);
  }

  /** @returns what the client may be sent of this: itself, the last version that it takes, or nothing. */
  admit(projection: Projection): Projection | undefined {
    const { typeUrl, name } = projection;
    if (this.takes(projection)) {
      if (this.#resources.size > 0) this.#resources.delete(typeUrl, name.key);
      return projection;
    }
    if (this.#resources.get(typeUrl, name.key)?.version !== projection.version) {
      if (this.#resources.size >= MANY) this.#forgetPast();
      this.#resources.set(typeUrl, name.key, projection);
      this.#options.onWithheld(withheldOf(projection, this.maxBytes));
    }
    const fallback = this.#options.cache.fallbacks.of(projection);
    return fallback && this.takes(fallback) ? fallback : undefined;
  }

  /** The same of what is known of a name. */
  contentOf(state: NameState): Projection | undefined {
    return state.kind === 'present' ? this.admit(state.projection) : undefined;
  }

  /** Would this resource beside so many others, of so many bytes with all errors, be too much? */
  exceeds(next: Projection, resources: number, bytes: number): boolean {
    const around = resources * AROUND_RESOURCE_BYTES;
    return bytes + around + sizeInMessage(next) > roomIn(this.maxBytes, next.typeUrl);
  }

  /** A whole set is due. @returns whether the client takes a message of this size. */
  admitSet(typeUrl: string, bytes: number): boolean {
    this.#sets.delete(typeUrl);
    if (bytes <= this.maxBytes) return true;
    this.withholdSet(typeUrl, bytes);
    return false;
  }

  withholdSet(typeUrl: string, bytes: number): void {
    const withheld = { typeUrl, name: undefined, bytes, maxBytes: this.maxBytes };
    this.#sets.set(typeUrl, withheld);
    this.#options.onWithheld(withheld);
  }

  /** Is any resource of the type withheld? Then the client does not have what there is. */
  isWithholding(typeUrl: string): boolean {
    return this.withheld.some((one) => one.name !== undefined && one.typeUrl === typeUrl);
  }

  get withheld(): readonly Withheld[] {
    if (this.#resources.size > 0) this.#forgetPast();
    const { maxBytes } = this;
    const resources = [...this.#resources.values()].map((one) => withheldOf(one, maxBytes));
    return [...resources, ...this.#sets.values()];
  }

  #forgetPast(): void {
    for (const projection of [...this.#resources.values()]) {
      const { typeUrl, name, version } = projection;
      const { cache, isAsked } = this.#options;
      const isCurrent = cache.held(typeUrl, name)?.version === version;
      if (!isCurrent || !isAsked(projection)) this.#resources.delete(typeUrl, name.key);
    }
  }
}

function withheldOf(projection: Projection, maxBytes: number): Withheld {
  const { typeUrl, name, field } = projection;
  return { typeUrl, name: name.key, bytes: field.bytes.length, maxBytes };
}
