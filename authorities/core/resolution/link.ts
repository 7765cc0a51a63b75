/**
 * One hop of a redirect: watches the target, and notifies the watchers of the redirected name under that name. In a chain, the
 * target is redirected too, and its link watches the next one.
 */
import { isDataError, STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import { wireText, type ResourceName } from '../../../protos/resource-name.js';
import { reproject, type Projection } from '../projection.js';
import type { ResourceWatcher } from '../watcher.js';
import type { ResolutionPort } from './resolution-port.js';

/** What a link asks of all redirects together. */
export interface LinkOwner {
  /** Is this still the link of its name? */
  has(link: Link): boolean;
  /** Why the chain ends here, whatever its target is; undefined: it is followed. */
  problemOf(link: Link): string | undefined;
  /** Does the chain from here run in a cycle, or exceed the limit? @returns the problem */
  chainProblem(link: Link): string | undefined;
  /** The target was answered for the first time. */
  handleAnswered(link: Link): void;
}

type Absence =
  | { readonly kind: 'gone'; readonly status: RpcStatus | undefined }
  | { readonly kind: 'error'; readonly status: RpcStatus };

/** One redirected name, however many clients request it. */
export class Link implements ResourceWatcher {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly target: ResourceName;
  problem: string | undefined;
  isAnswered = false;
  readonly #port: ResolutionPort;
  readonly #owner: LinkOwner;
  served: Projection | undefined;
  /** Why nothing is served, as last sent to watchers. */
  #absence: Absence | undefined;
  #problemTold: string | undefined;
  #isOpen = false;

  constructor(
    typeUrl: string,
    name: ResourceName,
    target: ResourceName,
    port: ResolutionPort,
    owner: LinkOwner,
  ) {
    this.typeUrl = typeUrl;
    this.name = name;
    this.target = target;
    this.#port = port;
    this.#owner = owner;
  }

  /** @param held what watchers have received; served until the target answers */
  open(held: Projection | undefined): void {
    this.served = held;
    this.problem = this.#owner.problemOf(this);
    if (this.problem === undefined) this.#watch();
    this.judge();
  }

  #watch(): void {
    this.#isOpen = true;
    this.#port.watch(this.typeUrl, this.target, this);
  }

  /** The map or the watchers may have changed. */
  reconsider(): void {
    const problem = this.#owner.problemOf(this);
    if (problem === undefined && !this.#isOpen) {
      this.problem = undefined;
      this.#watch();
      this.judge();
    }
    if (problem === undefined || !this.#isOpen) return;
    this.close();
    // The redirect may no longer be followed, so its content must go.
    if (this.served) this.#tellGone();
    this.problem = problem;
    this.judge();
  }

  close(): void {
    if (!this.#isOpen) return;
    // Set before unwatching: a redirect cycle re-enters here.
    this.#isOpen = false;
    this.#port.unwatch(this.typeUrl, this.target, this);
  }

  /**
   * Checks the chain from here, and sends a new problem once. @returns whether the chain is sound.
   */
  judge(): boolean {
    // Another redirect replaced this one while it was still being notified of its target.
    if (!this.#owner.has(this)) return false;
    if (this.#isOpen) this.problem = this.#owner.chainProblem(this);
    const { problem } = this;
    const told = this.#problemTold;
    // Set before notifying: a redirect cycle re-enters here.
    this.#problemTold = problem;
    if (problem !== undefined && problem !== told) this.#tellError(this.#problemStatus(problem));
    return problem === undefined;
  }

  /** Sends the present state to new watchers. */
  replay(newcomers: readonly ResourceWatcher[]): void {
    const { typeUrl, name } = this;
    for (const watcher of newcomers) {
      if (this.served) watcher.onChanged(this.served);
      else if (this.problem !== undefined) {
        watcher.onResourceError(typeUrl, name, this.#problemStatus(this.problem));
      } else if (this.#absence?.kind === 'gone') {
        watcher.onDoesNotExist(typeUrl, name, this.#absence.status);
      } else if (this.#absence) watcher.onResourceError(typeUrl, name, this.#absence.status);
    }
  }

  #problemStatus(problem: string): RpcStatus {
    const message = `the redirect to ${wireText(this.target.key)} ${problem}`;
    return { code: STATUS_CODE.notFound, message };
  }

  onChanged(projection: Projection): void {
    if (!this.judge()) return;
    const projected = reproject(projection, this.name);
    /* c8 ignore next -- it was parsed under its own name before */
    if (!projected.ok) return;
    this.served = projected.projection;
    this.#tellChanged(projected.projection);
    this.#answered();
  }

  onRemoved(_typeUrl: string, _name: ResourceName, status?: RpcStatus): void {
    // Check again: the removal may have broken a cycle or shortened a chain that was too long.
    if (this.judge()) this.#tellGone(status);
  }

  onDoesNotExist(_typeUrl: string, _name: ResourceName, status?: RpcStatus): void {
    if (this.judge()) this.#tellGone(status);
  }

  /* c8 ignore start -- for globs and lists, which no redirect leads to */
  onComplete(): void {}
  onMemberChanged(): void {}
  onMemberRemoved(): void {}
  /* c8 ignore stop */

  onResourceError(_typeUrl: string, _name: ResourceName, status: RpcStatus): void {
    // In a cycle the error would return here for ever.
    if (!this.judge()) return;
    this.#absence = { kind: 'error', status };
    this.#tellError(status);
  }

  #tellChanged(projection: Projection): void {
    for (const watcher of this.#audience()) watcher.onChanged(projection);
  }

  #tellGone(status?: RpcStatus): void {
    const had = this.served !== undefined;
    this.served = undefined;
    this.#absence = { kind: 'gone', status };
    for (const watcher of this.#audience()) {
      if (had) watcher.onRemoved(this.typeUrl, this.name, status);
      else watcher.onDoesNotExist(this.typeUrl, this.name, status);
    }
    this.#answered();
  }

  /** An ambient error while content is served: not sent. */
  #tellError(status: RpcStatus): void {
    if (!this.served) {
      for (const watcher of this.#audience()) {
        watcher.onResourceError(this.typeUrl, this.name, status);
      }
    }
    // Other errors do not answer the name: the target may exist, and a client may hold it.
    if (isDataError(status)) this.#answered();
  }

  #audience(): Iterable<ResourceWatcher> {
    return [...this.#port.audienceOf(this.typeUrl, this.name)];
  }

  #answered(): void {
    if (this.isAnswered) return;
    this.isAnswered = true;
    this.#owner.handleAnswered(this);
  }
}
