/** One response of the state of the world, and the interface of the two classes that decide its contents. */
import type { Projection } from '../../../authorities/index.js';
import type { ResourceError } from '../../../protos/discovery.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import type { Member } from '../cache/collection.js';
import type { Segment } from '../cache/whole-set.js';
import type { SotwGlob, SotwName } from './sotw-subscription.js';

/** Contents of one response. */
export interface SotwContent {
  /** Resources that are encoded already, for all clients. */
  readonly segments: readonly Segment[];
  /** The other resources. */
  readonly resources: readonly Projection[];
  readonly versionInfo: string;
  readonly errors: readonly ResourceError[];
  /** Number of resources that the client held and this response drops. */
  readonly removed: number;
  /** The response adds resources that the client did not have. */
  readonly bringsNew: boolean;
  /** New or changed clusters in it, whose assignments have to follow. */
  readonly clusters: readonly Projection[];
}

export interface TakeOptions {
  readonly maxBytes: number;
  /** The stream has had no response yet: one is due even without news. */
  readonly greet: boolean;
  /** Removed resources may be dropped from the response. */
  readonly release: boolean;
}

/** The number of resources in a response. */
export const countOf = ({
  segments,
  resources,
}: Pick<SotwContent, 'segments' | 'resources'>): number =>
  segments.reduce((sum, { size }) => sum + size, resources.length);

/** Decides the contents of the responses of one type. */
export interface Responses {
  /** Each response has all resources of the type that the client is to hold. */
  readonly isWhole: boolean;
  /** See `TypeSubscriptions`. */
  holdsFirstSet(nowMs: number): boolean;
  /** See `TypeSubscriptions`. */
  readonly guardedUntilMs: number | undefined;
  /** See `SotwSubscriptions.blockedUntilMs`. */
  blockedUntilMs(nowMs: number, isRelease: boolean): number | undefined;
  /**
   * Does a portion of the work of `take`, which would take too long at once.
   *
   * @param wraps see `Segment.encoded`
   * @param most members of collections to look at, about
   * @returns whether nothing is left to do
   */
  prepare(wraps: boolean, most: number): boolean;
  /** @returns the next response, or undefined if there is nothing to send. */
  take(options: TakeOptions): SotwContent | undefined;
  readonly hasRemovals: boolean;
  /** The last set was too large: it is due again with each change. */
  readonly isWithheld: boolean;
  /** The response that was taken last was sent, with this version. */
  handleSent(versionInfo: string): void;
  /** The client unsubscribed a name. */
  handleNameLeft(known: SotwName): void;
  /** The client unsubscribed a glob. */
  handleGlobLeft(glob: SotwGlob): void;
  /** A member of a subscribed glob was removed. */
  handleMemberGone(glob: SotwGlob, gone: Member): void;
  /**
   * The client's rights changed, and its names and globs are judged anew. If the client loses the right before the gateway
   * has sent it the content, the gateway never sends that content (invariant 23).
   *
   * @param mayAsk whether the client may ask for this name now
   * @returns whether a response is due for that
   */
  dropUnsent(mayAsk: (name: ResourceName) => boolean): boolean;
}

/** A first response waits this long for missing answers; the whole set of a returning client may wait longer. */
export const FIRST_ANSWER_WAIT_MS = 3_000;
