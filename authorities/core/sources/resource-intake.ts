/**
 * Takes the resources of a response into the contents of a source, one by one: the part that delta
 * and state of the world have in common. Bulk machine over `SourceContents`.
 */
import {
  isDataError,
  type DeltaResponse,
  type RpcStatus,
  type WireResource,
} from '../../../protos/discovery.js';
import {
  readConstraints,
  type ParameterConstraints,
} from '../../../protos/parameter-constraints.js';
import { bodyOf } from '../../../protos/resource-field.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import type { Projected, Projection } from '../projection.js';
import { constraintProblem, forParameters, readResource } from '../projection.js';
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
  /** The names of subscriptions that a variant was for. Absent: `name` alone. */
  readonly names?: readonly ResourceName[];
  /** Why the gateway rejects it; undefined: accepted, or not wanted and ignored. */
  readonly reason?: string | undefined;
}

interface Refused extends Taken {
  readonly reason: string;
}

interface Named {
  readonly name: ResourceName;
  readonly names: readonly ResourceName[];
}

/** The content of a resource as it was sent. */
interface Sent {
  readonly bodyTypeUrl: string;
  readonly body: Uint8Array;
  readonly constraints: ParameterConstraints | undefined;
  /** The content that the same resource became for another set of parameters. */
  readonly like: Projection | undefined;
}

/** A variant of a resource (TP2); without constraints, it is for every client. */
export interface Variant {
  /** Without parameters. */
  readonly name: ResourceName;
  readonly resource: WireResource;
  readonly constraints: ParameterConstraints | undefined;
}

/** More refused variants of one name are not told apart. A count. */
const MAX_REFUSED_VARIANTS = 16;
/** Further ones; no constraints have this text. */
const OTHERS = '…';

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

  /**
   * What a response costs, beside its bytes: each name for which something is taken or removed.
   *
   * @param most the names of a response with more entries are not counted: that would take long, too
   * @returns a count
   */
  entriesIn(
    { typeUrl, resources, removed, removedVariants = [], errors }: DeltaResponse,
    most: number,
  ): number {
    const named = resources.length + removed.length + removedVariants.length + errors.length;
    if (!this.#contents.hasVariants || named > most) return named;
    let variants = 0;
    for (const { name } of [...resources, ...removedVariants, ...errors])
      variants += this.#variantsOf(typeUrl, name);
    for (const name of removed) variants += this.#variantsOf(typeUrl, name);
    return named + variants;
  }

  #variantsOf(typeUrl: string, text: string): number {
    const published = this.#readName(typeUrl, text);
    return published.ok ? this.#contents.variantCount(published.name) : 0;
  }

  /** For a source without variants. */
  take(resource: WireResource, context: ResponseContext): Taken {
    const read = this.read(resource, context);
    if ('reason' in read) return read;
    const { name, constraints } = read;
    const reason = constraintProblem(name, constraints);
    return reason === undefined
      ? this.#takeAs(name, resource, context, constraints)
      : { name, reason };
  }

  /** @returns the refusal of a name, or of constraints, that cannot be read */
  read(resource: WireResource, context: ResponseContext): Variant | Refused {
    const published = this.#readName(context.typeUrl, resource.name);
    if (!published.ok) return { reason: published.reason };
    const { name } = published;
    const constraints = resource.constraints && readConstraints(resource.constraints);
    if (typeof constraints !== 'string') return { name, resource, constraints };
    const refused = this.#refuse(name, context, `has constraints that ${constraints}`);
    // The source has this name with whichever parameters.
    return this.#contents.hasVariants
      ? { ...refused, names: this.#contents.asVariants(name) }
      : refused;
  }

  /** The source has this name, but the gateway cannot take its content. Held content stays. */
  #refuse(
    name: ResourceName,
    { typeUrl, nowMs }: ResponseContext,
    reason: string,
    unroomedBytes?: number,
  ): Refused {
    if (!name.isGlob && this.#contents.isWanted(typeUrl, name)) {
      const glob = this.#contents.refuse(typeUrl, name, unroomedBytes);
      if (glob) this.#answers.handleMember(glob, 'part', nowMs);
    }
    return { name, reason };
  }

  /** The requested names that a variant may be for: the source may send the variants for other clients, too. */
  namesFor({ name }: Variant): readonly ResourceName[] {
    return this.#contents.asVariants(name);
  }

  /**
   * Takes a variant for one set of parameters.
   *
   * @param like another name that it was taken for, with other parameters
   * @returns undefined: it is not for these parameters
   */
  takeVariant(
    { resource, constraints }: Variant,
    name: ResourceName,
    like: ResourceName | undefined,
    context: ResponseContext,
  ): Taken | undefined {
    if (constraintProblem(name, constraints) !== undefined) return undefined;
    const { typeUrl } = context;
    const reason = this.#ambiguity(typeUrl, name, constraints);
    if (reason !== undefined) return { name, reason };
    const projection = like && this.#contents.entry(typeUrl, like)?.projection;
    return this.#takeAs(name, resource, context, constraints, projection);
  }

  /**
   * TP2, "Matching Ambiguity": a client is sent one variant. A second one that the present stream sends for it, before it removes the
   * first, is refused.
   */
  #ambiguity(
    typeUrl: string,
    name: ResourceName,
    constraints: ParameterConstraints | undefined,
  ): string | undefined {
    const subscription = this.#contents.subscription(typeUrl, name);
    if (!subscription) return undefined;
    const text = constraints?.text ?? '';
    const { variant = text } = subscription;
    subscription.variant = variant;
    const { refusedVariants = new Set<string>() } = subscription;
    if (variant === text) {
      refusedVariants.delete(text);
      return undefined;
    }
    refusedVariants.add(refusedVariants.size < MAX_REFUSED_VARIANTS ? text : OTHERS);
    subscription.refusedVariants = refusedVariants;
    return `has two variants for {${name.parameters ?? ''}}: (${variant}) and (${text})`;
  }

  /** Notes before the resources of a response which variants it removes: a variant that replaces another is no second one. */
  noteRemoval(name: ResourceName, variant: string | undefined, { typeUrl }: ResponseContext): void {
    const subscription = this.#contents.subscription(typeUrl, name);
    if (!subscription || variant === undefined) return;
    if (subscription.variant === variant) subscription.variant = undefined;
    subscription.refusedVariants?.delete(variant);
  }

  #takeAs(
    name: ResourceName,
    resource: WireResource,
    context: ResponseContext,
    constraints: ParameterConstraints | undefined,
    like?: Projection,
  ): Taken {
    const { typeUrl, nowMs, arrivedMs, isResync, partial } = context;
    // Sent before the unsubscribe arrived, or never requested: ignored, and no reason for a NACK.
    if (name.isGlob || !this.#contents.isWanted(typeUrl, name)) return { name };
    const { ttlMs } = resource;
    const expiresAtMs = ttlMs === undefined ? undefined : arrivedMs + ttlMs;
    if (!resource.body) {
      return { name, reason: this.#renew(typeUrl, name, resource.version, expiresAtMs) };
    }
    const { typeUrl: bodyTypeUrl, body } = resource;
    const projected = this.#admitted(name, typeUrl, { bodyTypeUrl, body, constraints, like });
    if (!projected.ok)
      return this.#refuse(name, context, projected.reason, projected.unroomedBytes);
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
  #admitted(
    name: ResourceName,
    typeUrl: string,
    { bodyTypeUrl, body, constraints, like }: Sent,
  ): Admitted {
    const { budget } = this.#contents;
    const held = this.#contents.entry(typeUrl, name)?.projection;
    const heldBytes = held?.field.bytes.length;
    // Before the work of reading it, and again with its exact size.
    const early = heldBytes === undefined ? budget.refusal(body.length, undefined) : undefined;
    if (early !== undefined) return { ok: false, reason: early, unroomedBytes: body.length };
    // A server may resend all resources for the sake of one, so the bytes that are held are not read
    // again.
    const isSame = (one: Projection | undefined): one is Projection =>
      one?.constraints?.text === constraints?.text &&
      bodyTypeUrl === typeUrl &&
      one !== undefined &&
      hasBody(one, body);
    if (isSame(held)) return { ok: true, projection: held };
    const isLike = like?.name.parameters !== undefined && isSame(like);
    const projected: Projected = isLike
      ? { ok: true, projection: forParameters(like, name) }
      : readResource(name, typeUrl, bodyTypeUrl, body, undefined, constraints);
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

  /** The requested names, with and without parameters (TP2), of what a source calls by this text. */
  named(text: string, { typeUrl }: ResponseContext): Named | Refused {
    const published = this.#readName(typeUrl, text);
    if (!published.ok) return { reason: published.reason };
    const { name } = published;
    return { name, names: this.#contents.hasVariants ? this.#contents.asVariants(name) : [name] };
  }

  /**
   * The source reports that it has no such resource, or cannot tell.
   *
   * @param status its reason, if it sent one (TP3)
   */
  remove(name: ResourceName, context: ResponseContext, status?: RpcStatus): void {
    if (this.#contents.hasVariants && this.#hasVariant(context.typeUrl, name)) return;
    if (status) this.#removeAs(name, context, status);
    else this.#removeHeld(name, context);
  }

  /** Did the present stream send a variant with constraints for this name? Only its constraints remove it. */
  #hasVariant(typeUrl: string, name: ResourceName): boolean {
    const subscription = this.#contents.subscription(typeUrl, name);
    if (subscription) return (subscription.variant ?? '') !== '';
    return this.#contents.entry(typeUrl, name)?.projection.constraints !== undefined;
  }

  /**
   * TP2 `removed_resource_names`: the source has no more a variant with these constraints.
   *
   * @param variant see {@link variantText}
   */
  removeVariant(name: ResourceName, variant: string | undefined, context: ResponseContext): void {
    if (variant === '') {
      this.remove(name, context);
      return;
    }
    const held = this.#contents.entry(context.typeUrl, name)?.projection;
    const isRejected = !held && this.#contents.isRejected(context.typeUrl, name);
    if (isRejected) this.#removeAs(name, context);
    else if (held?.constraints && held.constraints.text === variant)
      this.#removeHeld(name, context);
  }

  /** If the source has another variant, which was refused, the content is kept until the source has answered the name again. */
  #removeHeld(name: ResourceName, context: ResponseContext): void {
    const subscription = this.#contents.subscription(context.typeUrl, name);
    if (!subscription?.refusedVariants?.size) {
      this.#removeAs(name, context);
      return;
    }
    subscription.refusedVariants = undefined;
    this.#resend(subscription);
  }

  #removeAs(
    name: ResourceName,
    { typeUrl, isResync, nowMs }: ResponseContext,
    status?: RpcStatus,
  ): void {
    const subscription = this.#contents.subscription(typeUrl, name);
    if (subscription && subscription.variant !== undefined) subscription.variant = undefined;
    const glob = name.isGlob ? this.#contents.subscription(typeUrl, name) : undefined;
    if (status && !isDataError(status)) this.#contents.fail(typeUrl, name, status);
    else if (glob) this.#answers.handleEmpty(glob, nowMs, status);
    else this.#contents.remove(typeUrl, name, isResync, status);
  }
}

/** @returns the text of constraints, by which variants are compared; undefined: no variant has them, since they are unreadable */
export function variantText(bytes: Uint8Array): string | undefined {
  const constraints = readConstraints(bytes);
  return typeof constraints === 'string' ? undefined : (constraints?.text ?? '');
}

/** Was the projection made from these bytes? Not if it lost alternatives, or is a redirect. */
function hasBody({ field, redirect, alternatives }: SourceEntry['projection'], body: Uint8Array) {
  return !redirect && !alternatives && Buffer.compare(bodyOf(field), body) === 0;
}
