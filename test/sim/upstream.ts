/** A simulated management server: what it publishes, its failures, and its streams. */
import type { Missing } from './missing.js';
import { EDS, partsOf, withoutEndpoints } from './names.js';
import type { Pieces } from './pieces.js';
import type { Resource, ServerStream, StreamPort } from './upstream-wire.js';

/** Its present failures; healing resets all of them. */
export interface Temper {
  /** New streams are refused, refused with a permanent status, or get no response. */
  reachability: 'up' | 'refuse' | 'reject' | 'black_hole';
  /** Each change resends all resources of its type, and `initial_resource_versions` are ignored. */
  stateOfTheWorld: boolean;
  /** Delay of each response. */
  slowMs: number;
  /** Time from the first response of a stream to its end. */
  flapAfterMs: number | undefined;
  /** Names that get no response. */
  readonly mute: Set<string>;
  /** Names whose content the gateway rejects. A new publication is good again. */
  readonly spoiled: Set<string>;
  /** Resources with a TTL get no heartbeat. */
  noHeartbeats: boolean;
}

/** @param peer one process of one gateway */
type StreamOf = (server: Upstream, peer: string, port: StreamPort) => ServerStream;

export class Upstream {
  readonly name: string;
  readonly temper: Temper = {
    reachability: 'up',
    stateOfTheWorld: false,
    slowMs: 0,
    flapAfterMs: undefined,
    mute: new Set(),
    spoiled: new Set(),
    noHeartbeats: false,
  };
  /** Its streams are of the state of the world. */
  readonly isSotw: boolean;
  readonly streams = new Set<ServerStream>();
  /** Undefined: each response is one message. */
  pieces: Pieces | undefined;
  /** Undefined: it started long ago and has its full content. */
  missing: Missing | undefined;
  /** The TTL of the next publication; undefined: none ever. */
  ttlFor: (() => number | undefined) | undefined;
  /** Replaces the streams if this is a directory. */
  onAnnounced: ((names: readonly string[]) => void) | undefined;
  readonly #resources = new Map<string, Resource>();
  /** By receiving process: the versions of each name that it was sent. */
  readonly #issued = new Map<string, Map<string, Set<string>>>();
  #versions = 0;
  #nonces = 0;

  readonly #streamOf: StreamOf;

  constructor(name: string, isSotw: boolean, streamOf: StreamOf) {
    this.name = name;
    this.isSotw = isSotw;
    this.#streamOf = streamOf;
  }

  mend(): void {
    const { temper } = this;
    temper.reachability = 'up';
    temper.stateOfTheWorld = false;
    temper.slowMs = 0;
    temper.flapAfterMs = undefined;
    temper.mute.clear();
    temper.spoiled.clear();
    temper.noHeartbeats = false;
  }

  /** Sends heartbeats for all resources with a TTL on every stream. */
  renew(): void {
    const withTtl = this.names.filter(
      (name) => this.get(name)?.ttlMs !== undefined && !this.temper.spoiled.has(name),
    );
    for (const stream of this.streams) stream.renew(withTtl);
  }

  /** It has its full content from now on. */
  release(): void {
    const { missing } = this;
    if (!missing) return;
    this.missing = undefined;
    if (missing.isSilent) for (const stream of this.streams) stream.answerAll();
    else this.announce(this.names.filter((name) => !missing.kept.has(name)));
  }

  /** The resource as the server sends it now. */
  told(name: string): Resource | undefined {
    const { missing } = this;
    const published = this.#resources.get(name);
    const resource = published && this.temper.spoiled.has(name) ? spoiled(published) : published;
    if (missing?.isBare === true) return resource && withoutItsEndpoints(name, resource);
    return missing && !missing.kept.has(name) ? undefined : resource;
  }

  get toldNames(): readonly string[] {
    return this.missing ? this.names.filter((name) => this.told(name)) : this.names;
  }

  get names(): readonly string[] {
    return [...this.#resources.keys()];
  }

  get(name: string): Resource | undefined {
    return this.#resources.get(name);
  }

  set(name: string, body: Buffer, isRedirect: boolean): void {
    const version = `${this.name}.${++this.#versions}`;
    this.temper.spoiled.delete(name);
    this.#resources.set(name, { version, body, isRedirect, ttlMs: this.ttlFor?.() });
  }

  delete(name: string): void {
    this.#resources.delete(name);
  }

  /** Sends the present state of these names on every stream. */
  announce(names: readonly string[]): void {
    for (const stream of this.streams) stream.announce(names);
    this.onAnnounced?.(names);
  }

  nextNonce(): string {
    return `${this.name}:${++this.#nonces}`;
  }

  open(peer: string, port: StreamPort): ServerStream {
    const stream = this.#streamOf(this, peer, port);
    this.streams.add(stream);
    return stream;
  }

  /** @param peer one process of one gateway */
  issuedTo(peer: string): Map<string, Set<string>> {
    let issued = this.#issued.get(peer);
    if (!issued) this.#issued.set(peer, (issued = new Map<string, Set<string>>()));
    return issued;
  }
}

const spoiled = (resource: Resource): Resource => ({
  ...resource,
  version: `${resource.version} spoiled`,
  isSpoiled: true,
});

function withoutItsEndpoints(name: string, resource: Resource): Resource {
  if (partsOf(name).typeUrl !== EDS || resource.isRedirect) return resource;
  const body = withoutEndpoints(resource.body);
  return body === resource.body
    ? resource
    : { ...resource, body, version: `${resource.version} bare` };
}
