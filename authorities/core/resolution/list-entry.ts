/** Watches the target of one list entry on behalf of the list. */
import type { RpcStatus } from '../../../protos/discovery.js';
import { isDataError, STATUS_CODE } from '../../../protos/discovery.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import type { ResolutionPort } from './resolution-port.js';
import { reproject, type Projection } from '../projection.js';
import type { ResourceWatcher } from '../watcher.js';

/** The list that contains the entry. */
export interface EntryOwner {
  readonly typeUrl: string;
  readonly name: ResourceName;
  handleMember(entry: ListEntryWatch, projection: Projection): void;
  handleMemberGone(entry: ListEntryWatch, name: ResourceName): void;
  handleEntryAnswered(entry: ListEntryWatch): void;
}

export class ListEntryWatch implements ResourceWatcher {
  readonly owner: EntryOwner;
  /**
   * The watched name: a name, a glob, a list, or a name with directives. Undefined for an inline
   * entry.
   */
  readonly target: ResourceName | undefined;
  /** The names that it presently leads to. */
  readonly members = new Map<string, ResourceName>();
  /** Whether a name missing from `members` is known not to exist. */
  isProof = true;
  readonly #memberName: ResourceName | undefined;
  readonly #port: ResolutionPort;

  /** @param memberName the name to serve a single resource under, if not its own */
  constructor(
    owner: EntryOwner,
    target: ResourceName | undefined,
    memberName: ResourceName | undefined,
    port: ResolutionPort,
  ) {
    this.owner = owner;
    this.target = target;
    this.#memberName = memberName;
    this.#port = port;
  }

  open(): void {
    if (this.target) this.#port.watch(this.owner.typeUrl, this.target, this);
  }

  close(): void {
    if (this.target) this.#port.unwatch(this.owner.typeUrl, this.target, this);
  }

  onChanged(projection: Projection): void {
    const name = this.#memberName;
    if (!name || name.key === projection.name.key) this.owner.handleMember(this, projection);
    else {
      const named = reproject(projection, name);
      /* c8 ignore next -- it was parsed under its own name before */
      if (named.ok) this.owner.handleMember(this, named.projection);
    }
    // A glob may send more members.
    if (this.target?.isGlob === false) this.#handleProof();
  }

  onRemoved(_typeUrl: string, name: ResourceName): void {
    this.owner.handleMemberGone(this, this.#memberName ?? name);
  }

  onMemberChanged(_list: ResourceName, projection: Projection): void {
    this.owner.handleMember(this, projection);
  }

  onMemberRemoved(_typeUrl: string, _list: ResourceName, name: ResourceName): void {
    this.owner.handleMemberGone(this, name);
  }

  onDoesNotExist(_typeUrl: string, name: ResourceName): void {
    if (name.key === this.target?.key) this.#handleProof();
  }

  /** The target answered; an error may have come before. */
  #handleProof(): void {
    this.isProof = true;
    this.owner.handleEntryAnswered(this);
  }

  onComplete(_typeUrl: string, _glob: ResourceName, isProof: boolean): void {
    this.isProof = isProof;
    this.owner.handleEntryAnswered(this);
  }

  onResourceError(_typeUrl: string, name: ResourceName, status: RpcStatus): void {
    // Either an error of a glob's member, or UNAVAILABLE, which answers nothing: the target may
    // exist, and a client may hold it.
    if (name.key !== this.target?.key || status.code === STATUS_CODE.unavailable) return;
    // Only NOT_FOUND and PERMISSION_DENIED prove absence; an unreadable list, for one, proves
    // nothing.
    this.isProof = isDataError(status);
    this.owner.handleEntryAnswered(this);
  }
}
