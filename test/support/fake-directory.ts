/**
 * The upstream side for tests: a map of existing resources, and watches that the test answers. Each
 * notification is true at that moment.
 */
import { createHash } from 'node:crypto';
import { DEFAULT_FAILOVER } from '../../config/defaults.js';
import type { RemovalPolicy } from '../../config/model.js';
import type { Projection, ResourceWatcher } from '../../authorities/index.js';
import type { ResourceDirectory } from '../../gateway/core/cache/resource-cache.js';
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import { readConstraints } from '../../protos/parameter-constraints.js';
import { encodeResourceField } from '../../protos/resource-field.js';
import {
  isMemberOf,
  oldStyleName,
  parametersOfKey,
  parseResourceName,
  plainKeyOf,
  wireText,
  withParameters,
  type ResourceName,
} from '../../protos/resource-name.js';
import { encodeConstraints, type ConstraintFields } from './discovery-messages.js';

/**
 * @param text for an old-style name: its key, `\n{scope}\n{text}`; for a name with parameters (TP2): `\t{parameters}\t{name}`.
 */
export function nameOf(text: string): ResourceName {
  const parameters = parametersOfKey(text);
  if (parameters !== '') return withParameters(nameOf(plainKeyOf(text)), parameters);
  if (text.startsWith('\n')) {
    const [, scope = '', ...rest] = text.split('\n');
    return oldStyleName(scope, rest.join('\n'));
  }
  const parsed = parseResourceName(text);
  if (!parsed.ok) throw new Error(`${text}: ${parsed.error.message}`);
  return parsed.value;
}

/** @param edsText the assignment from which a cluster takes its endpoints. */
export function projectionOf(
  typeUrl: string,
  text: string,
  content: string,
  edsText?: string,
  constraintFields: ConstraintFields = {},
): Projection {
  const name = nameOf(text);
  const edsKey = edsText === undefined ? undefined : nameOf(edsText).key;
  const body = Buffer.from(content);
  const constraints = readConstraints(encodeConstraints(constraintFields));
  if (typeof constraints === 'string') throw new Error(constraints);
  const said = `${typeUrl}\0${edsKey ?? ''}\0${content}${constraints?.text ?? ''}`;
  const version = createHash('sha256').update(said).digest('base64url').slice(0, 22);
  const own = name.parameters === undefined ? undefined : constraints?.bytes;
  const field = encodeResourceField(wireText(name.key), version, typeUrl, body, own);
  return { name, typeUrl, version, field, edsKey, ...(constraints && { constraints }) };
}

interface Watch {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly watcher: ResourceWatcher;
  answered: boolean;
}

const keyOf = (typeUrl: string, key: string): string => `${typeUrl} ${key}`;

export class FakeDirectory implements ResourceDirectory {
  nowMs = 0;
  removalPolicy: RemovalPolicy = DEFAULT_FAILOVER;
  readonly #truth = new Map<string, Projection>();
  readonly #removed = new Map<string, Projection>();
  /** By watched name and by watcher. */
  readonly #watches = new Map<string, Map<ResourceWatcher, Watch>>();
  /** The numbers of watch and unwatch calls. */
  watchCalls = 0;
  unwatchCalls = 0;

  /** The sources are unreachable. */
  isAway = false;

  /** These sent something that is no content: a redirect whose target is away, or content that the gateway rejected. */
  readonly undecided = new Set<string>();

  /** The sources of these collections failed, and have not answered since. */
  readonly #failed = new Set<string>();

  isCurrent(typeUrl: string, { key }: ResourceName): boolean {
    return !this.isAway && !this.#failed.has(keyOf(typeUrl, key));
  }

  /** The sources failed, and have been well again since then. */
  wellSinceMs = 0;

  guardedUntilMs(): number {
    return this.wellSinceMs + this.removalPolicy.deletionGuard.waitMs;
  }

  isSilentAbout(_typeUrl: string, { key }: ResourceName): boolean {
    return !this.isAway && !this.undecided.has(key);
  }

  removalPolicyOf(): RemovalPolicy {
    return this.removalPolicy;
  }

  watch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher): void {
    this.watchCalls++;
    const key = keyOf(typeUrl, name.key);
    const watches = this.#watches.get(key) ?? new Map<ResourceWatcher, Watch>();
    this.#watches.set(key, watches.set(watcher, { typeUrl, name, watcher, answered: false }));
  }

  /** Called with the time at which the last client left. */
  onUnwatch: (leftMs: number | undefined) => void = () => undefined;

  unwatch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher, leftMs?: number): void {
    this.onUnwatch(leftMs);
    this.unwatchCalls++;
    if (!this.#watches.get(keyOf(typeUrl, name.key))?.delete(watcher)) {
      throw new Error(`not watched: ${name.key}`);
    }
  }

  #all(): readonly Watch[] {
    return [...this.#watches.values()].flatMap((watches) => [...watches.values()]);
  }

  get watched(): readonly string[] {
    return this.#all().map(({ name }) => name.key);
  }

  current(typeUrl: string, key: string): Projection | undefined {
    return this.#truth.get(keyOf(typeUrl, key));
  }

  /** What a removed resource had. */
  lastOf(typeUrl: string, key: string): Projection | undefined {
    return this.#removed.get(keyOf(typeUrl, key));
  }

  membersOf(typeUrl: string, glob: ResourceName): readonly Projection[] {
    return [...this.#truth.values()].filter(
      (one) => one.typeUrl === typeUrl && isMemberOf(one.name, glob),
    );
  }

  put(
    typeUrl: string,
    text: string,
    content: string,
    edsText?: string,
    constraints?: ConstraintFields,
  ): Projection {
    const projection = projectionOf(typeUrl, text, content, edsText, constraints);
    this.#truth.set(keyOf(typeUrl, projection.name.key), projection);
    for (const { watcher } of this.#concerned(typeUrl, projection.name)) {
      this.#tell(watcher, projection);
    }
    return projection;
  }

  /** @param status the reason of the source (TP3); default: none */
  remove(typeUrl: string, text: string, status?: RpcStatus): void {
    const name = nameOf(text);
    const last = this.current(typeUrl, name.key);
    if (!last) return;
    this.#truth.delete(keyOf(typeUrl, name.key));
    this.#removed.set(keyOf(typeUrl, name.key), last);
    // A glob may know a member from a watch of its name, before its own answer.
    for (const { watcher } of this.#concerned(typeUrl, name, true)) {
      watcher.onRemoved(typeUrl, name, status);
      this.#noteAnswered(watcher, typeUrl, name);
    }
  }

  #tell(watcher: ResourceWatcher, projection: Projection): void {
    watcher.onChanged(projection);
    this.#noteAnswered(watcher, projection.typeUrl, projection.name);
  }

  /**
   * A watcher that was notified of a member, or of its removal, has an answer for that name too.
   */
  #noteAnswered(watcher: ResourceWatcher, typeUrl: string, name: ResourceName): void {
    const watch = this.#watches.get(keyOf(typeUrl, name.key))?.get(watcher);
    if (watch) watch.answered = true;
  }

  /** Answers pending watches; `which` selects some. Members of globs come in order of `put`. */
  answer(which: (name: ResourceName, typeUrl: string) => boolean = () => true): void {
    for (const watch of this.#all()) {
      const { typeUrl, name, watcher, answered } = watch;
      if (answered || !which(name, typeUrl)) continue;
      watch.answered = true;
      this.#failed.delete(keyOf(typeUrl, name.key));
      if (name.isGlob) {
        for (const member of this.membersOf(typeUrl, name)) this.#tell(watcher, member);
        watcher.onComplete(typeUrl, name, true);
        continue;
      }
      const projection = this.current(typeUrl, name.key);
      if (projection) watcher.onChanged(projection);
      else watcher.onDoesNotExist(typeUrl, name);
    }
  }

  /** Notifies the members of globs, and completion without proof. */
  answerWithoutProof(): void {
    for (const watch of this.#all()) {
      const { typeUrl, name, watcher, answered } = watch;
      if (!name.isGlob || answered) continue;
      watch.answered = true;
      for (const one of this.membersOf(typeUrl, name)) watcher.onChanged(one);
      watcher.onComplete(typeUrl, name, false);
    }
  }

  /** Sends an error for pending watches; `which` selects some. */
  failWaiting(status: RpcStatus, which: (name: ResourceName) => boolean): void {
    for (const { typeUrl, name, watcher, answered } of this.#all()) {
      if (!answered && which(name)) watcher.onResourceError(typeUrl, name, status);
    }
  }

  /** Sends an error for this name or glob now. */
  fail(typeUrl: string, text: string, status: RpcStatus): void {
    const asked = nameOf(text);
    const key = keyOf(typeUrl, asked.key);
    if (asked.isGlob && status.code === STATUS_CODE.unavailable) this.#failed.add(key);
    const watches = this.#watches.get(key) ?? [];
    for (const [watcher, { name }] of watches) watcher.onResourceError(typeUrl, name, status);
  }

  /** Each watcher once, even if it watches both the name and its glob. */
  #concerned(typeUrl: string, name: ResourceName, gone = false): Iterable<Watch> {
    const byWatcher = new Map<ResourceWatcher, Watch>();
    for (const watch of this.#all()) {
      const concerns = watch.name.key === name.key || isMemberOf(name, watch.name);
      const isTold = watch.answered || (gone && watch.name.isGlob);
      if (isTold && watch.typeUrl === typeUrl && concerns) {
        byWatcher.set(watch.watcher, watch);
      }
    }
    return byWatcher.values();
  }
}
