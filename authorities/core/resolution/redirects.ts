/**
 * Redirects: where a source answers a name with the locator of another, whoever asks for the name gets
 * the other's content under the asked name (TP1, "Server redirects"). One link for each redirected
 * name, however many ask; a chain of redirects is links that watch one another.
 *
 * Content that was served stays until the target has answered: a name that becomes a redirect, or a
 * redirect that moves, never passes through "absent".
 */
import type { ResolutionBounds } from '../../../config/limits.js';
import { isDataError, STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import { globKeyOf, nameOfLocator, type ResourceName } from '../../../protos/resource-name.js';
import { TypedMap } from '../../../protos/typed-map.js';
import { redirectProblem, type Hop, type HopRules } from './hops.js';
import { reproject, type Projection } from '../projection.js';
import type { ResourceWatcher } from '../watcher.js';

/** What links need of the rest of the upstream side. */
export interface LinkPort extends HopRules {
  readonly bounds: ResolutionBounds;
  watch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher): void;
  unwatch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher): void;
  /** Those who are told of a name, as itself or as a member of its glob. */
  watchersOf(typeUrl: string, name: ResourceName): Iterable<ResourceWatcher>;
}

/** What the sources said of a collection. */
interface Answered {
  readonly glob: ResourceName;
  readonly isProof: boolean;
  readonly status: RpcStatus | undefined;
}

export class Redirects {
  readonly #port: LinkPort;
  readonly #maxHops: number;
  readonly #tooLong: string;
  /** By type and collection, since a collection is complete when its redirected members are. */
  readonly #links = new TypedMap<Map<string, Link>>();
  /** Collections that were answered while links of theirs were not. */
  readonly #incomplete = new TypedMap<Answered>();

  constructor(port: LinkPort) {
    this.#port = port;
    this.#maxHops = port.bounds.maxHops;
    this.#tooLong = `is one of more than ${this.#maxHops} hops`;
  }

  /**
   * What a source says under a name.
   *
   * @param before what it said until now; if that was content, it is held until there is more
   * @returns whether a link tells it, or will
   */
  handleChanged(projection: Projection, before?: Projection): boolean {
    const { typeUrl, name, redirect } = projection;
    const known = this.#link(typeUrl, name);
    if (!redirect) {
      if (known) this.#drop(known);
      return false;
    }
    const target = nameOfLocator(redirect);
    if (known?.target.key === target.key) {
      known.tellAgain();
      this.#reconsider(known);
      return true;
    }
    const link = new Link(typeUrl, name, target, this.#port, this);
    const globKey = globKeyOf(name);
    let links = this.#links.get(typeUrl, globKey);
    if (!links) this.#links.set(typeUrl, globKey, (links = new Map<string, Link>()));
    links.set(name.key, link);
    link.open(known ? known.served : before);
    known?.close();
    this.#judgeThoseBehind(link, 0);
    return true;
  }

  /** The name is not there (any more), whatever it led to. */
  handleGone(typeUrl: string, name: ResourceName): void {
    const link = this.#link(typeUrl, name);
    if (link) this.#drop(link);
  }

  /** Nobody asks for this name, or this glob, any more. @param isAsked whether a member still is */
  handleUnwatched(
    typeUrl: string,
    name: ResourceName,
    isAsked: (member: ResourceName) => boolean,
  ): void {
    const links = this.#links.get(typeUrl, globKeyOf(name));
    if (!links) return;
    if (name.isGlob) this.#incomplete.delete(typeUrl, name.key);
    const own = links.get(name.key);
    for (const link of name.isGlob ? [...links.values()] : own ? [own] : []) {
      if (isAsked(link.name)) this.#reconsider(link);
      else this.#drop(link);
    }
  }

  /** Somebody, not the last one, asks for this name no more: the rest may be names of one circle. */
  handleLeft(typeUrl: string, name: ResourceName): void {
    const link = this.#link(typeUrl, name);
    if (link) this.#reconsider(link);
  }

  /** Who asks for a name decides how far the way from it is followed. */
  #reconsider(from: Link): void {
    let link: Link | undefined = from;
    for (let hops = 0; link && hops <= this.#maxHops; hops++) {
      const next: Link | undefined = this.#link(link.typeUrl, link.target);
      link.reconsider();
      link = next;
    }
  }

  /** A glob is answered by its sources. @returns whether that may be told already. */
  handleComplete(
    typeUrl: string,
    glob: ResourceName,
    isProof: boolean,
    status?: RpcStatus,
  ): boolean {
    for (const link of this.#links.get(typeUrl, glob.key)?.values() ?? []) {
      if (link.isAnswered) continue;
      this.#incomplete.set(typeUrl, glob.key, { glob, isProof, status });
      return false;
    }
    return true;
  }

  /** The map may allow other hops now. */
  handleRulesChanged(): void {
    for (const links of [...this.#links.values()]) {
      for (const link of [...links.values()]) link.reconsider();
    }
  }

  /** The names that a name leads to, one after the other; none if it is no redirect. */
  targetsOf(typeUrl: string, name: ResourceName): readonly ResourceName[] {
    const targets: ResourceName[] = [];
    let link = this.#link(typeUrl, name);
    for (; link && targets.length <= this.#maxHops; link = this.#link(typeUrl, link.target)) {
      targets.push(link.target);
    }
    return targets;
  }

  has(link: Link): boolean {
    return this.#link(link.typeUrl, link.name) === link;
  }

  /** Why the way is not followed from here on, whatever comes behind; or undefined. */
  problemOf({ typeUrl, name, target }: Link): string | undefined {
    const problem = redirectProblem(this.#port, name, target);
    if (problem !== undefined || this.#isAskedWithin(typeUrl, name, this.#maxHops - 1))
      return problem;
    return this.#tooLong;
  }

  /** Does anybody ask for this name but other redirects, or for one that leads here in so many hops? */
  #isAskedWithin(typeUrl: string, name: ResourceName, hops: number): boolean {
    for (const watcher of this.#port.watchersOf(typeUrl, name)) {
      if (!(watcher instanceof Link)) return true;
      if (hops > 0 && this.#isAskedWithin(typeUrl, watcher.name, hops - 1)) return true;
    }
    return false;
  }

  /** The way that a name takes, hop by hop; empty if it is no redirect. */
  hops(typeUrl: string, name: ResourceName): readonly Hop[] {
    const hops: Hop[] = [];
    let link = this.#link(typeUrl, name);
    for (; link && hops.length <= this.#maxHops; link = this.#link(typeUrl, link.target)) {
      const { target, problem } = link;
      hops.push({ kind: 'redirect', from: link.name.key, to: target.key, problem });
    }
    return hops;
  }

  /** Is the way from here without end, or too long? @returns what is wrong with it. */
  chainProblem(from: Link): string | undefined {
    let hops = 1;
    for (let at = this.#link(from.typeUrl, from.target); at; hops++) {
      if (at === from) return 'leads back to itself';
      if (hops === this.#maxHops) return this.#tooLong;
      at = this.#link(at.typeUrl, at.target);
    }
    return undefined;
  }

  handleAnswered({ typeUrl, name }: Link): void {
    const globKey = globKeyOf(name);
    const answered = this.#incomplete.get(typeUrl, globKey);
    if (!answered) return;
    const { glob, isProof, status } = answered;
    if (!this.handleComplete(typeUrl, glob, isProof, status)) return;
    this.#incomplete.delete(typeUrl, globKey);
    for (const watcher of this.#port.watchersOf(typeUrl, glob)) {
      watcher.onComplete(typeUrl, glob, isProof, status);
    }
  }

  /** A longer way may be too long for those who led here before. */
  #judgeThoseBehind(link: Link, depth: number): void {
    if (depth > this.#maxHops) return;
    for (const watcher of this.#port.watchersOf(link.typeUrl, link.name)) {
      if (!(watcher instanceof Link) || watcher === link) continue;
      watcher.judge();
      this.#judgeThoseBehind(watcher, depth + 1);
    }
  }

  #link(typeUrl: string, name: ResourceName): Link | undefined {
    return this.#links.get(typeUrl, globKeyOf(name))?.get(name.key);
  }

  #drop(link: Link): void {
    const globKey = globKeyOf(link.name);
    const links = this.#links.get(link.typeUrl, globKey);
    links?.delete(link.name.key);
    if (links?.size === 0) this.#links.delete(link.typeUrl, globKey);
    link.close();
    this.handleAnswered(link);
  }
}

type Absence =
  | { readonly kind: 'gone'; readonly status: RpcStatus | undefined }
  | { readonly kind: 'error'; readonly status: RpcStatus };

/** One redirected name. */
class Link implements ResourceWatcher {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly target: ResourceName;
  problem: string | undefined;
  isAnswered = false;
  readonly #port: LinkPort;
  readonly #redirects: Redirects;
  served: Projection | undefined;
  /** What that is of the target. */
  #source: Projection | undefined;
  /** Why nothing is served, as far as it was told. */
  #absence: Absence | undefined;
  #problemTold: string | undefined;
  #isOpen = false;

  constructor(
    typeUrl: string,
    name: ResourceName,
    target: ResourceName,
    port: LinkPort,
    redirects: Redirects,
  ) {
    this.typeUrl = typeUrl;
    this.name = name;
    this.target = target;
    this.#port = port;
    this.#redirects = redirects;
  }

  /** @param held what is told of the name already, and served until there is more */
  open(held: Projection | undefined): void {
    this.served = held;
    this.problem = this.#redirects.problemOf(this);
    if (this.problem === undefined) this.#watch();
    this.judge();
  }

  #watch(): void {
    this.#isOpen = true;
    this.#port.watch(this.typeUrl, this.target, this);
  }

  /** The map, or who asks, may be another now. */
  reconsider(): void {
    const problem = this.#redirects.problemOf(this);
    if (problem === undefined && !this.#isOpen) {
      this.problem = undefined;
      this.#watch();
      this.judge();
    }
    if (problem === undefined || !this.#isOpen) return;
    this.close();
    // The right to what it led to is lost.
    if (this.served) this.#tellGone();
    this.problem = problem;
    this.judge();
  }

  close(): void {
    if (!this.#isOpen) return;
    // First, since in a circle this comes round again.
    this.#isOpen = false;
    this.#port.unwatch(this.typeUrl, this.target, this);
  }

  /** @returns whether the chain from here is sound; what is wrong with it is told once. */
  judge(): boolean {
    // Another redirect took its place, while this one was still told of its target.
    if (!this.#redirects.has(this)) return false;
    if (this.#isOpen) this.problem = this.#redirects.chainProblem(this);
    const { problem } = this;
    const told = this.#problemTold;
    // Before it is told: in a circle it comes round again.
    this.#problemTold = problem;
    if (problem !== undefined && problem !== told) this.#tellProblem(problem);
    return problem === undefined;
  }

  /** For a watcher that is new. */
  tellAgain(): void {
    if (this.served) this.#tellChanged(this.served);
    else if (this.problem !== undefined) this.#tellProblem(this.problem);
    else if (this.#absence?.kind === 'gone') this.#tellGone(this.#absence.status);
    else if (this.#absence) this.#tellError(this.#absence.status);
  }

  #tellProblem(problem: string): void {
    const message = `the redirect to ${this.target.key} ${problem}`;
    this.#tellError({ code: STATUS_CODE.notFound, message });
  }

  onChanged(projection: Projection): void {
    const hadProblem = this.#problemTold !== undefined;
    if (!this.judge()) return;
    // Many names may lead to one, and each that is asked for has all of them told again.
    const { version, mapEntry } = projection;
    const isKnown = this.#source?.version === version && this.#source.mapEntry === mapEntry;
    // Those behind could not use it until now, if it was held all the while.
    if (this.served && isKnown && !hadProblem) return;
    const projected = reproject(projection, this.name);
    /* c8 ignore next -- it was read under its own name before */
    if (!projected.ok) return;
    this.#source = projection;
    this.served = projected.projection;
    this.#tellChanged(projected.projection);
    this.#answered();
  }

  onRemoved(_typeUrl: string, _name: ResourceName, status?: RpcStatus): void {
    // The way may have been too long, or a circle, until now.
    if (this.judge()) this.#tellGone(status);
  }

  onDoesNotExist(_typeUrl: string, _name: ResourceName, status?: RpcStatus): void {
    if (this.judge()) this.#tellGone(status);
  }

  /* c8 ignore start -- of globs and lists, which no redirect leads to */
  onComplete(): void {}
  onMemberChanged(): void {}
  onMemberRemoved(): void {}
  /* c8 ignore stop */

  onResourceError(_typeUrl: string, _name: ResourceName, status: RpcStatus): void {
    // In a circle, what is told would come round again.
    if (!this.judge()) return;
    this.#absence = { kind: 'error', status };
    this.#tellError(status);
  }

  #tellChanged(projection: Projection): void {
    for (const watcher of this.#watchers()) watcher.onChanged(projection);
  }

  #tellGone(status?: RpcStatus): void {
    const had = this.served !== undefined;
    this.served = undefined;
    this.#absence = { kind: 'gone', status };
    for (const watcher of this.#watchers()) {
      if (had) watcher.onRemoved(this.typeUrl, this.name, status);
      else watcher.onDoesNotExist(this.typeUrl, this.name, status);
    }
    this.#answered();
  }

  /** Ambient while something is served. */
  #tellError(status: RpcStatus): void {
    if (!this.served) {
      for (const watcher of this.#watchers()) {
        watcher.onResourceError(this.typeUrl, this.name, status);
      }
    }
    // Other errors are no answer: what is not known to be gone may be held by somebody.
    if (isDataError(status)) this.#answered();
  }

  #watchers(): Iterable<ResourceWatcher> {
    return [...this.#port.watchersOf(this.typeUrl, this.name)];
  }

  #answered(): void {
    if (this.isAnswered) return;
    this.isAnswered = true;
    this.#redirects.handleAnswered(this);
  }
}
