/** Builds one response to a client from resources that are already encoded. */
import type { Projection } from '../../../authorities/index.js';
import { NO_BYTES } from '../../../protos/discovery-fields.js';
import type { ResourceError, VariantName } from '../../../protos/discovery.js';
import { appended } from '../../../protos/empty-collections.js';
import {
  bodyOf,
  encodeResourceField,
  withVersion,
  type ResourceField,
} from '../../../protos/resource-field.js';
import { wireText } from '../../../protos/resource-name.js';
import { errorSize, type MessageLimit } from './message-limit.js';

/** Contents of one response. */
export interface ResponseContent {
  readonly pieces: readonly Buffer[];
  readonly resourceCount: number;
  readonly removed: readonly string[];
  /** Absent: none. */
  readonly removedVariants?: readonly VariantName[];
  readonly errors: readonly ResourceError[];
  /** The response adds resources that the client did not have. */
  readonly bringsNew: boolean;
}

export const NOTHING: ResponseContent = {
  pieces: [],
  resourceCount: 0,
  removed: [],
  errors: [],
  bringsNew: false,
};

const NO_PIECES: Buffer[] = [];

/** A response with this many resources is full, however small they are: one of 5,000 took a turn of 20 to 40 ms. A count. */
const MAX_RESOURCES = 2_500;

/** Collects the contents of one response. */
export class Draft {
  readonly #maxBytes: number;
  readonly #limit: MessageLimit;
  #pieces = NO_PIECES;
  /** A set: a client rejects a whole response that names a resource twice (ENVOY 9). */
  #removed: Set<string> | undefined;
  /** By name and constraints. */
  #removedVariants: Map<string, VariantName> | undefined;
  #errors: ResourceError[] | undefined;
  #bytes = 0;
  #resources = 0;
  /** Skipped repeats of resources in the response. A count. */
  #repeated = 0;
  #bringsNew = false;
  #isOwed = false;

  /** The resources so far, by name and constraints; undefined: no two subscriptions bring the same one. */
  readonly #variants: Set<string> | undefined;
  /** The members so far, by key: collections may share members. */
  readonly #members: Set<string> | undefined;

  /** @param hasVariants the client requests names with parameters (TP2), and several of them may be for the same variant */
  constructor(maxBytes: number, limit: MessageLimit, hasVariants = false, sharesMembers = false) {
    this.#members = sharesMembers ? new Set() : undefined;
    this.#maxBytes = maxBytes;
    this.#limit = limit;
    this.#variants = hasVariants ? new Set() : undefined;
  }

  get isEmpty(): boolean {
    const isRemoval = this.#removed !== undefined || this.#removedVariants !== undefined;
    return this.#resources === 0 && !isRemoval && !this.#errors && !this.#isOwed;
  }

  get isFull(): boolean {
    return this.#bytes >= this.#maxBytes || this.#resources + this.#repeated >= MAX_RESOURCES;
  }

  /**
   * Is the response full, or would `next` exceed the client's message limit? An empty response
   * always takes one more resource.
   */
  isFullFor(next: Projection | undefined): boolean {
    if (this.isFull) return true;
    if (!next || this.#bytes === 0) return false;
    return this.#limit.exceeds(next, this.#resources, this.#bytes);
  }

  get removedCount(): number {
    return (this.#removed?.size ?? 0) + (this.#removedVariants?.size ?? 0);
  }

  add(projection: Projection, suffix: string, isNew: boolean): void {
    if (!this.#variants) this.#add(projection, projection.field, suffix, isNew);
    else if (this.#isFirst(variantOf(projection)))
      this.#add(projection, variantField(projection), suffix, isNew);
  }

  /** Adds a member of a collection, without constraints, since its removal has none. */
  addMember(projection: Projection, isNew: boolean): void {
    if (this.#isRepeatedMember(projection)) return;
    if (!this.#variants || this.#isFirst(variantOf({ name: projection.name })))
      this.#add(projection, projection.field, '', isNew);
  }

  #isRepeatedMember({ name: { key } }: Projection): boolean {
    const isRepeated = this.#members?.has(key) === true;
    this.#members?.add(key);
    if (isRepeated) this.#repeated++;
    return isRepeated;
  }

  /** Is it the first resource of the response with this name and these constraints? */
  #isFirst(variant: string): boolean {
    const isFirst = this.#variants?.has(variant) !== true;
    this.#variants?.add(variant);
    if (!isFirst) this.#repeated++;
    return isFirst;
  }

  #add(projection: Projection, field: ResourceField, suffix: string, isNew: boolean): void {
    if (suffix === '') this.#put(field.bytes);
    else for (const piece of suffixed(projection, field, suffix)) this.#put(piece);
    this.#bytes += field.bytes.length;
    this.#resources++;
    this.#bringsNew ||= isNew;
  }

  #put(piece: Buffer): void {
    this.#pieces = appended(this.#pieces, piece);
  }

  remove(name: string): void {
    if (this.#removedVariants?.has(idOf({ name, constraints: NO_BYTES })) === true) return;
    (this.#removed ??= new Set()).add(name);
    this.#bytes += name.length;
  }

  /** Removes a variant by its constraints (TP2); empty: the one without. */
  removeVariant(variant: VariantName): void {
    if (variant.constraints.length === 0) this.#removed?.delete(variant.name);
    (this.#removedVariants ??= new Map()).set(idOf(variant), variant);
    this.#bytes += variant.name.length + variant.constraints.length;
  }

  fail(error: ResourceError): void {
    (this.#errors ??= []).push(error);
    this.#bytes += errorSize(error);
  }

  /** Sends the response even if it stays empty. */
  owe(): void {
    this.#isOwed = true;
  }

  finish(): ResponseContent | undefined {
    if (this.isEmpty) return undefined;
    return {
      pieces: this.#pieces,
      resourceCount: this.#resources,
      removed: this.#removed ? [...this.#removed] : NOTHING.removed,
      ...(this.#removedVariants && { removedVariants: [...this.#removedVariants.values()] }),
      errors: this.#errors ?? NOTHING.errors,
      bringsNew: this.#bringsNew,
    };
  }
}

const idOf = ({ name, constraints }: VariantName): string =>
  `${name}\t${Buffer.from(constraints).toString('latin1')}`;

/** What a client is sent under the same name and constraints is one resource. */
export const variantOf = ({
  name,
  constraints,
}: Pick<Projection, 'name' | 'constraints'>): string =>
  `${wireText(name.key)}\t${constraints?.text ?? ''}`;

const variantFields = new WeakMap<Projection, ResourceField>();

/** The resource for a client that knows variants (TP2): with its constraints, also if its name has no parameters. */
export function variantField(projection: Projection): ResourceField {
  const { name, typeUrl, version, field, constraints } = projection;
  if (!constraints || name.parameters !== undefined) return field;
  const made =
    variantFields.get(projection) ??
    encodeResourceField(wireText(name.key), version, typeUrl, bodyOf(field), constraints.bytes);
  variantFields.set(projection, made);
  return made;
}

interface Suffixed {
  readonly version: string;
  readonly pieces: readonly [Buffer, Buffer];
}

/** The last pieces of each assignment: clients that hold the same clusters are sent the same. */
const lastSuffixed = new WeakMap<ResourceField, Suffixed>();

function suffixed(
  projection: Projection,
  field: ResourceField,
  suffix: string,
): readonly [Buffer, Buffer] {
  const version = projection.version + suffix;
  const last = lastSuffixed.get(field);
  if (last?.version === version) return last.pieces;
  const pieces = withVersion(field, version);
  lastSuffixed.set(field, { version, pieces });
  return pieces;
}
