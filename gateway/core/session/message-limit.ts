/**
 * The maximum message size of a client, and the resources withheld because of it. A gRPC client
 * ends its stream when a message is too large. It would reconnect, get the same message again, and
 * so lose all resources because of one. The gateway therefore sends such a client the last version
 * of the resource that fits (GRPC 12).
 */
import type { Projection } from '../../../authorities/index.js';
import { STATUS_CODE, type ResourceError, type RpcStatus } from '../../../protos/discovery.js';
import { noMap, ownMap } from '../../../protos/empty-collections.js';
import { TypedMap } from '../../../protos/typed-map.js';
import { AROUND_RESOURCE_BYTES, bytesLeftIn, fits, sizeInMessage } from '../cache/message-size.js';
import type { NameState } from '../cache/entries.js';
import type { ResourceCache } from '../cache/resource-cache.js';
import type { Segment } from '../cache/whole-set.js';

/**
 * The setting `client.max_message`. `auto`: depends on the client's library. A number: bytes, for
 * every client.
 */
export type MaxMessage = 'auto' | 'none' | number;

/** How a client identifies its library. */
export interface ClientAgent {
  /** `Node.user_agent_name`; empty if the Node has none. */
  readonly userAgentName: string;
  /** The HTTP header `user-agent`; empty if absent. */
  readonly header: string;
}

/** The default of every gRPC library (`grpc.max_receive_message_length`). */
export const GRPC_MAX_MESSAGE_BYTES = 4 * 1_024 * 1_024;

/** `gRPC Go`, `gRPC Java`, `gRPC C-core linux`, `gRPC Node Pure JS`. */
const GRPC_NODE = /^gRPC /;
/** `grpc-go/1.85.0`, `grpc-python/1.85.1 grpc-c/58.0.0 (linux; chttp2)`. */
const GRPC_HEADER = /(^| )grpc-/;

const AROUND_ERROR_BYTES = 32;
/**
 * With this many entries, the limit first drops the ones that it no longer withholds.
 */
const MANY = 100;

/**
 * Is the client the xDS client of a gRPC library? `Node.user_agent_name` takes precedence over the header:
 * another xDS client that is built on a gRPC library sends that library's header.
 */
export function isGrpcLibrary({ userAgentName, header }: ClientAgent): boolean {
  return userAgentName === '' ? GRPC_HEADER.test(header) : GRPC_NODE.test(userAgentName);
}

/** @returns bytes; Infinity if no limit is known */
export function maxMessageBytesOf(setting: MaxMessage, agent: ClientAgent): number {
  if (typeof setting === 'number') return setting;
  return setting === 'auto' && isGrpcLibrary(agent) ? GRPC_MAX_MESSAGE_BYTES : Infinity;
}

/** The smallest limit of any client under this setting, in bytes. */
export function leastMaxMessageBytesOf(setting: MaxMessage): number {
  if (setting === 'none') return Infinity;
  return setting === 'auto' ? GRPC_MAX_MESSAGE_BYTES : setting;
}

export function errorSize({ name, status }: ResourceError): number {
  return Buffer.byteLength(name) + Buffer.byteLength(status.message) + AROUND_ERROR_BYTES;
}

/** A resource, or the whole set of listeners or clusters, that a client is not sent. */
export interface Withheld {
  readonly typeUrl: string;
  /** Undefined: the whole set of this type. */
  readonly name: string | undefined;
  readonly bytes: number;
  readonly maxBytes: number;
}

export interface MessageLimitOptions {
  readonly cache: Pick<ResourceCache, 'fallbacks' | 'held'>;
  /** Bytes. The client's first request decides it, so it is called late. Undefined: no limit. */
  readonly maxBytesOf: (() => number) | undefined;
  /** Does the client still subscribe to it, by name or through a collection? */
  readonly isAsked: (projection: Projection) => boolean;
  /** Called once for each version of a resource, and each time a set is due but too large. */
  readonly onWithheld: (withheld: Withheld) => void;
}

/** The error that replaces a withheld resource if the client holds no version of it. */
export const TOO_LARGE: RpcStatus = {
  code: STATUS_CODE.resourceExhausted,
  message: 'the resource exceeds the maximum message size of the client',
};

/** The message limit of one client. */
export class MessageLimit {
  readonly #options: MessageLimitOptions;
  readonly #resources = new TypedMap<Projection>();
  #sets: Map<string, Withheld> = noMap();

  constructor(options: MessageLimitOptions) {
    this.#options = options;
  }

  /** Bytes; Infinity: no limit. */
  get maxBytes(): number {
    return this.#options.maxBytesOf?.() ?? Infinity;
  }

  /** Does a message with this resource alone fit the limit? */
  takes(projection: Projection): boolean {
    return fits(projection, this.maxBytes);
  }

  /** Does the largest of these resources alone fit the limit? */
  takesEach({ largest }: Segment, typeUrl: string): boolean {
    return largest <= bytesLeftIn(this.maxBytes, typeUrl);
  }

  /** @returns the projection itself, or the last version that fits, or undefined. */
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

  /** `admit` of the content of a name; undefined if it has none. */
  contentOf(state: NameState): Projection | undefined {
    return state.kind === 'present' ? this.admit(state.projection) : undefined;
  }

  /**
   * Would adding `next` exceed the limit?
   *
   * @param resources number of resources already in the response
   * @param bytes their size, and that of all errors
   */
  exceeds(next: Projection, resources: number, bytes: number): boolean {
    const around = resources * AROUND_RESOURCE_BYTES;
    return bytes + around + sizeInMessage(next) > bytesLeftIn(this.maxBytes, next.typeUrl);
  }

  /**
   * A whole set is due.
   *
   * @returns whether the client accepts a message of this size.
   */
  admitSet(typeUrl: string, bytes: number): boolean {
    this.#sets.delete(typeUrl);
    if (bytes <= this.maxBytes) return true;
    this.withholdSet(typeUrl, bytes);
    return false;
  }

  withholdSet(typeUrl: string, bytes: number): void {
    const withheld = { typeUrl, name: undefined, bytes, maxBytes: this.maxBytes };
    this.#sets = ownMap(this.#sets).set(typeUrl, withheld);
    this.#options.onWithheld(withheld);
  }

  /** Is any resource of the type withheld? Then the client does not hold the current set. */
  isWithholding(typeUrl: string): boolean {
    if (this.#resources.size === 0) return false;
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
