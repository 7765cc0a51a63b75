/**
 * Redirects: a source answers a name with the locator of another, and every client of the name gets
 * the target's content under the requested name (TP1, "Server redirects"). Each redirected name has
 * one link, however many clients request it; in a chain of redirects the links watch one another.
 *
 * Served content stays until the target has answered: a name that becomes a redirect, or a redirect
 * whose target changes, is never absent in between.
 */
import type { RpcStatus } from '../../../protos/discovery.js';
import {
  globKeyOf,
  nameOfLocator,
  withParameters,
  type ResourceLocator,
  type ResourceName,
} from '../../../protos/resource-name.js';
import { TypedMap } from '../../../protos/typed-map.js';
import type { Projection } from '../projection.js';
import type { ResourceWatcher } from '../watcher.js';
import { leadProblem, type Hop } from './hops.js';
import { Link, type LinkOwner } from './link.js';
import type { ResolutionPort } from './resolution-port.js';

/** How the source answered a collection. */
interface Answered {
  readonly glob: ResourceName;
  readonly isProof: boolean;
  readonly status: RpcStatus | undefined;
}

/** The target is requested with the parameters of the name that leads to it; such a name has no directives. */
const targetOf = ({ parameters }: ResourceName, redirect: ResourceLocator): ResourceName =>
  parameters === undefined ? nameOfLocator(redirect) : withParameters(redirect.name, parameters);

export class Redirects implements LinkOwner {
  readonly #port: ResolutionPort;
  readonly #maxHops: number;
  readonly #tooLong: string;
  /**
   * By type and collection: a collection is complete only when its redirected members are answered.
   */
  readonly #links = new TypedMap<Map<string, Link>>();
  /** Collections that the source answered while links of their members were not answered. */
  readonly #incomplete = new TypedMap<Answered>();

  constructor(port: ResolutionPort) {
    this.#port = port;
    this.#maxHops = port.bounds.maxHops;
    this.#tooLong = `exceeds the limit of ${this.#maxHops} hops`;
  }

  /**
   * Takes what a source published under a name.
   *
   * @param before the content that it published until now, if any: the gateway serves that until the
   * target answers
   * @returns whether a link notifies the watchers
   */
  handleChanged(projection: Projection, before?: Projection): boolean {
    const { typeUrl, name, redirect } = projection;
    const known = this.#link(typeUrl, name);
    if (!redirect) {
      if (known) this.#drop(known);
      return false;
    }
    const target = targetOf(name, redirect);
    if (known?.target.key === target.key) return true;
    const link = new Link(typeUrl, name, target, this.#port, this);
    const globKey = globKeyOf(name);
    let links = this.#links.get(typeUrl, globKey);
    if (!links) this.#links.set(typeUrl, globKey, (links = new Map<string, Link>()));
    links.set(name.key, link);
    // The content before may be a redirect that the gateway did not follow: then it was not served (seed 306539).
    link.open(known ? known.served : before?.redirect ? undefined : before);
    known?.close();
    this.#judgeThoseBehind(link, 0);
    return true;
  }

  /** Sends the present state of a redirected name to new watchers. */
  replay(typeUrl: string, name: ResourceName, newcomers: readonly ResourceWatcher[]): void {
    this.#link(typeUrl, name)?.replay(newcomers);
  }

  /** A name or glob has new watchers: more redirects may be within the limit of hops. */
  handleWatched(typeUrl: string, name: ResourceName): void {
    for (const link of this.#linksAt(typeUrl, name)) this.#reconsider(link);
  }

  /** The name is gone; a redirect under it ends. */
  handleGone(typeUrl: string, name: ResourceName): void {
    const link = this.#link(typeUrl, name);
    if (link) this.#drop(link);
  }

  /**
   * The last watcher of this name or glob left. @param isWatched whether a member is still watched
   */
  handleUnwatched(
    typeUrl: string,
    name: ResourceName,
    isWatched: (member: ResourceName) => boolean,
  ): void {
    if (name.isGlob) this.#incomplete.delete(typeUrl, name.key);
    for (const link of this.#linksAt(typeUrl, name)) {
      if (isWatched(link.name)) this.#reconsider(link);
      else this.#drop(link);
    }
  }

  /** A watcher left, but not the last. The remaining ones may be the redirects of a cycle. */
  handleLeft(typeUrl: string, name: ResourceName): void {
    const link = this.#link(typeUrl, name);
    if (link) this.#reconsider(link);
  }

  /**
   * A chain is followed up to `maxHops` from a watched name, so each change of watchers may open or
   * close links further on.
   */
  #reconsider(from: Link): void {
    let link: Link | undefined = from;
    for (let hops = 0; link && hops <= this.#maxHops; hops++) {
      const next: Link | undefined = this.#link(link.typeUrl, link.target);
      link.reconsider();
      link = next;
    }
  }

  /** The source answered a glob. @returns whether its watchers may be notified already. */
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

  /** A new map may allow other hops. */
  handleRulesChanged(): void {
    for (const links of [...this.#links.values()]) {
      for (const link of [...links.values()]) link.reconsider();
    }
  }

  /** The targets behind a name, hop by hop; empty if the name is not a redirect. */
  targetsOf(typeUrl: string, name: ResourceName): readonly ResourceName[] {
    return [...this.#chain(typeUrl, name)].map(({ target }) => target);
  }

  /** The links from a name on; one more than the limit allows, at most. */
  *#chain(typeUrl: string, name: ResourceName): IterableIterator<Link> {
    let link = this.#link(typeUrl, name);
    for (let hops = 0; link && hops <= this.#maxHops; hops++) {
      yield link;
      link = this.#link(typeUrl, link.target);
    }
  }

  /** The names that redirect here, by one hop. */
  namesLeadingTo(typeUrl: string, target: ResourceName): readonly ResourceName[] {
    return [...this.#port.watchersOf(typeUrl, target)].flatMap((watcher) =>
      watcher instanceof Link ? [watcher.name] : [],
    );
  }

  has(link: Link): boolean {
    return this.#link(link.typeUrl, link.name) === link;
  }

  problemOf({ typeUrl, name, target }: Link): string | undefined {
    const problem = leadProblem(this.#port, name, target);
    if (problem !== undefined || this.#isAskedWithin(typeUrl, name, this.#maxHops - 1))
      return problem;
    return this.#tooLong;
  }

  /**
   * Does a client or a list watch this name, directly or through at most this many redirects?
   */
  #isAskedWithin(typeUrl: string, name: ResourceName, hops: number): boolean {
    for (const watcher of this.#port.watchersOf(typeUrl, name)) {
      if (!(watcher instanceof Link)) return true;
      if (hops > 0 && this.#isAskedWithin(typeUrl, watcher.name, hops - 1)) return true;
    }
    return false;
  }

  /** The hops from a name to its content; empty if the name is not a redirect. */
  hops(typeUrl: string, name: ResourceName): readonly Hop[] {
    return [...this.#chain(typeUrl, name)].map(({ name: { key: from }, target, problem }) => {
      return { kind: 'redirect', from, to: target.key, problem };
    });
  }

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
    for (const watcher of this.#port.audienceOf(typeUrl, glob)) {
      watcher.onComplete(typeUrl, glob, isProof, status);
    }
  }

  /** A longer chain may exceed the limit for the links that lead here. */
  #judgeThoseBehind(link: Link, depth: number): void {
    if (depth > this.#maxHops) return;
    for (const watcher of this.#port.watchersOf(link.typeUrl, link.name)) {
      if (!(watcher instanceof Link) || watcher === link) continue;
      watcher.judge();
      this.#judgeThoseBehind(watcher, depth + 1);
    }
  }

  /** The redirect under a name, or those under the members of a glob. */
  #linksAt(typeUrl: string, name: ResourceName): readonly Link[] {
    const links = this.#links.get(typeUrl, globKeyOf(name));
    if (name.isGlob) return [...(links?.values() ?? [])];
    const own = links?.get(name.key);
    return own ? [own] : [];
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
