/** What one entry of a list leads to, watched on behalf of the list. */
import type { RpcStatus } from '../../../protos/discovery.js';
import { isDataError, STATUS_CODE } from '../../../protos/discovery.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import type { LinkPort } from './redirects.js';
import { reproject, type Projection } from '../projection.js';
import type { ResourceWatcher } from '../watcher.js';

/** The list that an entry stands in. */
export interface EntryOwner {
  readonly typeUrl: string;
  readonly name: ResourceName;
  handleMember(entry: ListEntryWatch, projection: Projection): void;
  handleMemberGone(entry: ListEntryWatch, name: ResourceName): void;
  handleEntryAnswered(entry: ListEntryWatch): void;
}

export class ListEntryWatch implements ResourceWatcher {
  readonly owner: EntryOwner;
  /** What is asked: a name, a glob, a list, or a name with directives. Undefined for an inline entry. */
  readonly target: ResourceName | undefined;
  /** The names that it leads to now. */
  readonly members = new Map<string, ResourceName>();
  /** What it does not lead to does not exist. */
  isProof = true;
  readonly #memberName: ResourceName | undefined;
  readonly #port: LinkPort;

  /** @param memberName what a single resource is served as, if not under its own name */
  constructor(
    owner: EntryOwner,
    target: ResourceName | undefined,
    memberName: ResourceName | undefined,
    port: LinkPort,
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
      /* c8 ignore next -- it was read under its own name before */
      if (named.ok) this.owner.handleMember(this, named.projection);
    }
    // Of a glob there may be more to come.
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

  /** An error may have been all that was said until now. */
  #handleProof(): void {
    this.isProof = true;
    this.owner.handleEntryAnswered(this);
  }

  onComplete(_typeUrl: string, _glob: ResourceName, isProof: boolean): void {
    this.isProof = isProof;
    this.owner.handleEntryAnswered(this);
  }

  onResourceError(_typeUrl: string, name: ResourceName, status: RpcStatus): void {
    // Of a member of a glob; or unreachable, which is no answer: what is not known to be gone may be
    // held by somebody.
    if (name.key !== this.target?.key || status.code === STATUS_CODE.unavailable) return;
    // A list that cannot be read says nothing of what is in it, nor does any other error but two.
    this.isProof = isDataError(status);
    this.owner.handleEntryAnswered(this);
  }
}
