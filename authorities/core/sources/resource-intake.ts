/**
 * Takes the resources of a response into the contents of a source, one by one: the part that delta
 * and state of the world have in common. Bulk machine over `SourceContents`.
 */
import { isDataError, type RpcStatus, type WireResource } from '../../../protos/discovery.js';
import { bodyOf } from '../../../protos/resource-field.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import type { Projected } from '../projection.js';
import { readResource } from '../projection.js';
import type { Answers } from './answers.js';
import { readPublishedName, type PublishedName, type PublishingRights } from './published-name.js';
import type { SourceContents, SourceEntry, SourceSubscription } from './source-contents.js';

/** The response that a resource came in. */
export interface ResponseContext {
  readonly typeUrl: string;
  readonly nowMs: number;
  /** When the response came: TTLs run from then, in whichever portion their resources are taken. */
  readonly arrivedMs: number;
  /** A part of the first response after a reconnect: what it lacks may be lost, not deleted. */
  readonly isResync: boolean;
  /** A part of a larger response: more members may follow. */
  readonly partial: boolean;
}

/** The result for one resource. */
export interface Taken {
  /** Undefined: the source may not publish this name, or the text is not a name. */
  readonly name?: ResourceName;
  /** Why the gateway rejects it; undefined: accepted, or not wanted and ignored. */
  readonly reason?: string | undefined;
}

type Admitted = Projected & { readonly unroomedBytes?: number };

export class ResourceIntake {
  readonly #contents: SourceContents;
  readonly #answers: Answers;
  readonly #rights: PublishingRights;
  readonly #resend: (subscription: SourceSubscription) => void;

  /** @param resend requests a name or glob whose content expired here, but not at the server */
  constructor(
    contents: SourceContents,
    answers: Answers,
    rights: PublishingRights,
    resend: (subscription: SourceSubscription) => void,
  ) {
    this.#contents = contents;
    this.#answers = answers;
    this.#rights = rights;
    this.#resend = resend;
  }

  take(resource: WireResource, context: ResponseContext): Taken {
    const { typeUrl, nowMs, arrivedMs, isResync, partial } = context;
    const published = this.#readName(typeUrl, resource.name);
    if (!published.ok) return { reason: published.reason };
    const { name } = published;
    // Sent before the unsubscribe arrived, or never requested: ignored, and no reason for a NACK.
    if (name.isGlob || !this.#contents.isWanted(typeUrl, name)) return { name };
    const { ttlMs } = resource;
    const expiresAtMs = ttlMs === undefined ? undefined : arrivedMs + ttlMs;
    if (!resource.body) {
      return { name, reason: this.#renew(typeUrl, name, resource.version, expiresAtMs) };
    }
    const projected = this.#admitted(name, typeUrl, resource.typeUrl, resource.body);
    if (!projected.ok) {
      const glob = this.#contents.refuse(typeUrl, name, projected.unroomedBytes);
      if (glob) this.#answers.handleMember(glob, 'part', nowMs);
      return { name, reason: projected.reason };
    }
    const { projection } = projected;
    const entry = { projection, upstreamVersion: resource.version, expiresAtMs };
    const glob = this.#contents.put(entry, isResync);
    const isAsked = this.#contents.subscription(typeUrl, name) !== undefined;
    const event = isAsked ? 'shared' : partial ? 'part' : 'member';
    if (glob) this.#answers.handleMember(glob, event, nowMs);
    return { name };
  }

  /** Most names are spelled canonically and asked for, so they have been parsed before. */
  #readName(typeUrl: string, text: string): PublishedName {
    const known = this.#contents.knownName(typeUrl, text);
    if (known && this.#rights.mayServe(known.authority)) return { ok: true, name: known };
    return readPublishedName(typeUrl, text, this.#rights);
  }

  /** Reads the resource if the budget of the source has room for it. */
  #admitted(name: ResourceName, typeUrl: string, bodyTypeUrl: string, body: Uint8Array): Admitted {
    const { budget } = this.#contents;
    const held = this.#contents.entry(typeUrl, name)?.projection;
    const heldBytes = held?.field.bytes.length;
    // Before the work of reading it, and again with its exact size.
    const early = heldBytes === undefined ? budget.refusal(body.length, undefined) : undefined;
    if (early !== undefined) return { ok: false, reason: early, unroomedBytes: body.length };
    // A server may resend all resources for the sake of one, so the bytes that are held are not read
    // again.
    if (held && bodyTypeUrl === typeUrl && hasBody(held, body)) {
      return { ok: true, projection: held };
    }
    const projected = readResource(name, typeUrl, bodyTypeUrl, body);
    if (!projected.ok) return projected;
    const bytes = projected.projection.field.bytes.length;
    const reason = budget.refusal(bytes, heldBytes);
    return reason === undefined ? projected : { ok: false, reason, unroomedBytes: bytes };
  }

  /**
   * xDS protocol, "TTL": a resource without a body is a heartbeat, which renews the version sent
   * before. Servers of the state of the world leave that version out.
   */
  #renew(
    typeUrl: string,
    name: ResourceName,
    version: string,
    expiresAtMs: number | undefined,
  ): string | undefined {
    const entry = this.#contents.entry(typeUrl, name);
    if (entry && (version === '' || version === entry.upstreamVersion)) {
      this.#contents.renew(entry, expiresAtMs);
      return undefined;
    }
    if (entry) return `has no content, and its version ${version} was not sent before`;
    // It expired here but not at the server. Subscribing again makes the server send the body.
    const subscription = this.#contents.subscription(typeUrl, name);
    if (subscription) {
      this.#resend(subscription);
      return undefined;
    }
    // A glob is requested again only if a member's TTL ended here, not for a member that was never
    // held or was rejected: the server resends every member for the sake of one.
    const glob = this.#contents.globOf(typeUrl, name);
    // While the glob is unanswered, the next heartbeat will do.
    if (!glob?.lapsed || glob.status === 'requested') return undefined;
    glob.lapsed = false;
    this.#resend(glob);
    return undefined;
  }

  /**
   * The source reports that it has no such resource, or cannot tell.
   *
   * @param status its reason, if it sent one (TP3)
   */
  remove(text: string, { typeUrl, isResync, nowMs }: ResponseContext, status?: RpcStatus): Taken {
    const published = this.#readName(typeUrl, text);
    if (!published.ok) return { reason: published.reason };
    const { name } = published;
    const glob = name.isGlob ? this.#contents.subscription(typeUrl, name) : undefined;
    if (status && !isDataError(status)) this.#contents.fail(typeUrl, name, status);
    else if (glob) this.#answers.handleEmpty(glob, nowMs, status);
    else this.#contents.remove(typeUrl, name, isResync, status);
    return { name };
  }
}

/** Was the projection made from these bytes? Not if it lost alternatives, or is a redirect. */
function hasBody({ field, redirect, alternatives }: SourceEntry['projection'], body: Uint8Array) {
  return !redirect && !alternatives && Buffer.compare(bodyOf(field), body) === 0;
}
