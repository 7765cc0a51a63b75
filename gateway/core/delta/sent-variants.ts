/**
 * Variants of resources (TP2) on a delta stream: which one each subscription brought, and how it is removed. A client may subscribe to a name
 * several times, with other parameters, and several subscriptions may bring the same variant. It is sent once, and removed with the last.
 */
import type { Projection } from '../../../authorities/index.js';
import { NO_BYTES } from '../../../protos/discovery-fields.js';
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import { VariantNames, withParameters, type ResourceName } from '../../../protos/resource-name.js';
import { NOT_HELD } from '../session/holdings.js';
import type { Draft } from '../session/response-draft.js';
import { tellError, type NameSubscription, type SentConstraints } from './subscription.js';

/** Variants of one name: each is compared with all others. A count. */
const MAX_VARIANTS_ON_STREAM = 100;

/** Sent instead of a removal, if another subscription of the client keeps what the removal would name. */
const NOT_FOUND: RpcStatus = {
  code: STATUS_CODE.notFound,
  message: 'the resource does not exist with these parameters',
};

const TOO_MANY: RpcStatus = {
  code: STATUS_CODE.invalidArgument,
  message: `more than ${MAX_VARIANTS_ON_STREAM} sets of parameters for one name on one stream`,
};

/** The constraints of content without any. */
const NONE: SentConstraints = { text: '', bytes: NO_BYTES };

export class SentVariants {
  readonly #names: ReadonlyMap<string, NameSubscription>;
  readonly #isMember: (key: string) => boolean;
  readonly #asked = new VariantNames();
  #areKnown = false;

  /** @param isMember does the client get the name with this key through a collection? */
  constructor(names: ReadonlyMap<string, NameSubscription>, isMember: (key: string) => boolean) {
    this.#names = names;
    this.#isMember = isMember;
  }

  /** Did the client request names with parameters? Then it is sent constraints, also for names without. */
  get areKnown(): boolean {
    return this.#areKnown;
  }

  /** @returns why the client may not request this name with one more set of parameters; undefined: it may */
  refusalOf(name: ResourceName): RpcStatus | undefined {
    const isVariant = name.parameters !== undefined;
    return isVariant && this.#asked.countOf(name) >= MAX_VARIANTS_ON_STREAM ? TOO_MANY : undefined;
  }

  noteAsked(name: ResourceName): void {
    this.#areKnown = true;
    this.#asked.add(name);
  }

  noteUnsubscribed(name: ResourceName): void {
    if (this.#areKnown) this.#asked.delete(name);
  }

  /** Did the subscription bring the client this variant last? Content may have changed since. */
  isSent({ constraints }: NameSubscription, content: Projection): boolean {
    return !this.areKnown || isSameVariant(constraints, content.constraints);
  }

  /** The client holds this content by this subscription. */
  noteSent(known: NameSubscription, { constraints }: Projection): void {
    if (this.areKnown) known.constraints = constraints ?? NONE;
  }

  /** Removes the former variant in the same response, so that a client never has two (TP2, "Example: Transition Scenarios"). */
  replace(draft: Draft, known: NameSubscription, content: Projection): void {
    if (!this.areKnown) return;
    const { asked, constraints = NONE, held, isClaim } = known;
    // A name that is subscribed again counts as not held, and the client may have its variant.
    const isHeld = held !== NOT_HELD || known.constraints !== undefined;
    // A claim has no constraints, so the gateway cannot name the variant that a resuming client holds.
    const isToGo = isHeld && !isClaim && !this.isSent(known, content);
    if (isToGo && !this.#isShared(known))
      draft.removeVariant({ name: asked, constraints: constraints.bytes });
    this.noteSent(known, content);
  }

  remove(draft: Draft, known: NameSubscription): void {
    const { asked, constraints = NONE } = known;
    if (this.#isShared(known)) tellError(known, NOT_FOUND, draft);
    else if (constraints.text === '') draft.remove(asked);
    else draft.removeVariant({ name: asked, constraints: constraints.bytes });
    if (known.constraints) known.constraints = undefined;
  }

  /** Does the client get the same variant through another subscription, too? */
  #isShared({ entry: { name }, constraints = NONE }: NameSubscription): boolean {
    if (!this.areKnown) return false;
    const plain = withParameters(name, '');
    // A member comes without its constraints.
    if (constraints.text === '' && !this.#names.has(plain.key) && this.#isMember(plain.key))
      return true;
    return [plain, ...this.#asked.of(plain)].some(({ key }) => {
      const other = key === name.key ? undefined : this.#names.get(key);
      return other !== undefined && brings(other, constraints);
    });
  }
}

/** Will this subscription have brought the client this variant, once all that is due is sent? */
function brings({ held, entry: { state } }: NameSubscription, variant: SentConstraints): boolean {
  if (state.kind === 'absent') return false;
  if (state.kind === 'present') return isSameVariant(state.projection.constraints, variant);
  // A resuming client may hold any.
  return held !== NOT_HELD;
}

const isSameVariant = (a: SentConstraints | undefined, b: SentConstraints | undefined): boolean =>
  (a?.text ?? '') === (b?.text ?? '');
