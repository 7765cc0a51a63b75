/** Reads the section `authorities` of the authority map. */
import type { Cursor } from './cursor.js';
import { DEFAULT_FAILOVER } from './defaults.js';
import type {
  AlternativeSpec,
  AuthoritySpec,
  FailoverPolicy,
  UseAlternativeWhen,
} from './model.js';
import { didYouMean } from './nearest.js';
import type { SourceEntry } from './source-entries.js';

/** An authority and its place: its entry, or the first ConfigSource that lists it. */
interface AuthorityEntry {
  readonly spec: AuthoritySpec;
  readonly at: Cursor;
}

/**
 * All authorities in the order of the file: first those under `authorities`, then those that only
 * ConfigSources list.
 * @param usedElsewhere names of sources that other sections use, which are not unused
 * @param defaultSources those of `default_config_source`, which a ConfigSource may mean (`ads: {}`)
 */
export function readAuthorities(
  root: Cursor,
  sources: readonly SourceEntry[],
  usedElsewhere: readonly string[],
  defaultSources: readonly string[],
): ReadonlyMap<string, AuthoritySpec> {
  const known = new Set(sources.flatMap(({ name, isDefault }) => (isDefault ? [] : [name])));
  const written = new Map(root.field('authorities').entries());
  const listed = listedAuthorities(sources, defaultSources);
  const names = new Set([...written.keys(), ...listed.keys()]);
  const entries = new Map<string, AuthorityEntry>();
  for (const name of names) {
    const listing = listed.get(name);
    const at = written.get(name) ?? listing?.[0]?.at;
    if (at === undefined) continue;
    checkAuthorityName(name, at);
    const entry = written.get(name);
    const spec = readAuthority(
      name,
      entry,
      [...new Set(listing?.flatMap(({ names }) => names))],
      known,
      names,
    );
    entries.set(name, { spec, at });
  }
  warnOfUnused(sources, entries, usedElsewhere);
  for (const { spec, at } of entries.values()) warnOfAlternatives(spec, at, entries);
  return new Map([...entries].map(([name, { spec }]) => [name, spec]));
}

interface Listing {
  readonly source: string;
  /** The sources that it stands for: itself, or those of `default_config_source`. */
  readonly names: readonly string[];
  readonly at: Cursor;
}

/** Authority → the ConfigSources that list it, in the order of the file. */
function listedAuthorities(
  sources: readonly SourceEntry[],
  defaultSources: readonly string[],
): ReadonlyMap<string, readonly Listing[]> {
  const listed = new Map<string, Listing[]>();
  for (const source of sources) {
    for (const authority of source.authorities) {
      const at = authority.field('name');
      const name = at.string();
      if (name === undefined) continue;
      const entries = listed.get(name) ?? [];
      if (entries.some((entry) => entry.source === source.name)) at.problem('is listed twice');
      else {
        const names = source.isDefault ? defaultSources : [source.name];
        entries.push({ source: source.name, names, at });
      }
      listed.set(name, entries);
    }
  }
  return listed;
}

function checkAuthorityName(name: string, at: Cursor): void {
  if (!/[/?#\s]|^xdstp:/.test(name)) return;
  const host = /^xdstp:\/\/([^/?#]*)/.exec(name)?.[1];
  const remedy = host === undefined ? undefined : `write ${JSON.stringify(host)}`;
  at.problem(
    'is not an authority name: an authority name has no /, ?, # or white space',
    remedy,
    'key',
  );
}

function readAuthority(
  name: string,
  entry: Cursor | undefined,
  listed: readonly string[],
  knownSources: ReadonlySet<string>,
  knownAuthorities: ReadonlySet<string>,
): AuthoritySpec {
  const sources = [...(entry === undefined ? [] : readSourceNames(entry, knownSources))];
  sources.push(...listed.filter((source) => !sources.includes(source)));
  if (listed.length === 0 && entry?.object() !== undefined && !entry.field('sources').present) {
    entry.problem('has no sources', 'write sources: [name of a source]', 'key');
  }
  const alternatives = entry === undefined ? [] : readAlternatives(name, entry, knownAuthorities);
  const mayLeadTo = entry === undefined ? [] : readMayLeadTo(entry, knownAuthorities);
  const failover = entry?.field('failover');
  if (failover && !hasAlternatives(entry) && sources.length < 2) {
    warnOfNoChoice(failover, 'there is one source and no alternative');
  }
  return {
    name,
    sources,
    alternatives,
    failover: failover === undefined ? DEFAULT_FAILOVER : readFailover(failover),
    ignoreDeletion: entry?.field('ignore_deletion').boolean() ?? false,
    ...(mayLeadTo.length > 0 && { mayLeadTo }),
  };
}

/** The list `sources` of an entry, without unknown names and duplicates, which it reports. */
export function readSourceNames(entry: Cursor, known: ReadonlySet<string>): readonly string[] {
  const sources: string[] = [];
  for (const item of entry.field('sources').items()) {
    const source = item.string();
    if (source === undefined || source === '') continue;
    if (!known.has(source)) {
      item.problem(`unknown source ${JSON.stringify(source)}`, didYouMean(source, [...known]));
    } else if (sources.includes(source)) item.problem(`${JSON.stringify(source)} is listed twice`);
    else sources.push(source);
  }
  return sources;
}

/** `may_lead_to` of an entry; `*` stands for every authority of the map. */
function readMayLeadTo(entry: Cursor, known: ReadonlySet<string>): readonly string[] {
  const listed: string[] = [];
  for (const item of entry.field('may_lead_to').items()) {
    const name = item.string();
    if (name === undefined) continue;
    if (name === '*') listed.push(...known);
    else if (known.has(name)) listed.push(name);
    else {
      item.problem(`unknown authority ${JSON.stringify(name)}`, didYouMean(name, [...known]));
    }
  }
  return [...new Set(listed)];
}

function hasAlternatives(entry: Cursor | undefined): boolean {
  return (
    entry?.field('alternative').present === true || entry?.field('alternatives').present === true
  );
}

function readAlternatives(
  name: string,
  entry: Cursor,
  known: ReadonlySet<string>,
): readonly AlternativeSpec[] {
  const alternatives: AlternativeSpec[] = [];
  const add = (
    authority: Cursor,
    prefixAt: Cursor,
    fromPrefix: string | undefined,
    toPrefix: string | undefined,
  ) => {
    const other = authority.string();
    if (other === undefined) return;
    if (!known.has(other)) {
      authority.problem(
        `unknown authority ${JSON.stringify(other)}`,
        didYouMean(other, [...known]),
      );
    } else if (other === name) {
      authority.problem('an authority cannot be its own alternative', 'write another authority');
    }
    if (fromPrefix === undefined || toPrefix === undefined) return;
    if (alternatives.some((alternative) => alternative.fromPrefix === fromPrefix)) {
      prefixAt.problem(`duplicate alternative for ${JSON.stringify(`${fromPrefix}*`)}`);
    }
    alternatives.push({ authority: other, fromPrefix, toPrefix });
  };
  const whole = entry.field('alternative');
  add(whole, whole, '', '');
  for (const item of entry.field('alternatives').items()) {
    const match = item.field('match');
    const path = item.field('path');
    const fromPrefix = readPrefix(match);
    const toPrefix = path.present ? readPrefix(path) : fromPrefix;
    add(item.field('authority'), match.present ? match : item, fromPrefix, toPrefix);
  }
  return alternatives;
}

/** `edge/*` → `edge/`; absent or `*` → `''`. Anything else is reported and gives `undefined`. */
function readPrefix(at: Cursor): string | undefined {
  if (!at.present) return '';
  const text = at.string();
  if (text === undefined || text === '*') return text === undefined ? undefined : '';
  const prefix = text.slice(0, -1);
  if (!text.endsWith('/*') || text.startsWith('/') || prefix.includes('*')) {
    at.problem('must be a path prefix that ends with /*', prefixRemedy(text));
    return undefined;
  }
  if (/%[0-9A-Fa-f]{2}/.test(prefix)) {
    at.problem('must be written without percent-escapes', `write "${decode(text)}"`);
    return undefined;
  }
  return prefix;
}

function prefixRemedy(text: string): string {
  const start = text.replace(/[/*]+$/, '').replace(/^\/+/, '');
  if (start.includes('*')) return 'write * only at the end, after a slash';
  return start === '' ? 'leave it out' : `write "${start}/*"`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The failover settings that need at least two candidates. The others also apply to a single one. */
const CHOICE_FIELDS = [
  'use_alternative_when',
  'hold',
  'hold_max',
  'hold_reset',
  'cold_wait',
  'prewarm',
];

/** @param failover the setting of an entry with a single candidate */
export function warnOfNoChoice(failover: Cursor, reason: string): void {
  for (const key of CHOICE_FIELDS) {
    const field = failover.field(key);
    if (field.present) field.warn(`has no effect: ${reason}`, undefined, 'key');
  }
}

/** The failover policy of an entry, with every default filled in. */
export function readFailover(at: Cursor): FailoverPolicy {
  if (at.object() === undefined) return DEFAULT_FAILOVER;
  const defaults = DEFAULT_FAILOVER;
  const positive = (key: string): number | undefined => at.field(key).durationMs('more than zero');
  const guard = at.field('deletion_guard');
  const policy: FailoverPolicy = {
    useAlternativeWhen: readUseAlternativeWhen(at.field('use_alternative_when')),
    holdMs: positive('hold') ?? defaults.holdMs,
    holdMaxMs: positive('hold_max') ?? defaults.holdMaxMs,
    holdResetMs: positive('hold_reset') ?? defaults.holdResetMs,
    coldWaitMs: positive('cold_wait') ?? defaults.coldWaitMs,
    switchWaitMs: at.field('switch_wait').durationMs('zero allowed') ?? defaults.switchWaitMs,
    unavailableAfterMs: positive('unavailable_after') ?? defaults.unavailableAfterMs,
    prewarm:
      oneOf(['off', 'connected', 'subscribed'], at.field('prewarm').string()) ?? defaults.prewarm,
    lingerMs: at.field('linger').durationMs('zero allowed') ?? defaults.lingerMs,
    deletionGuard: {
      share: guard.field('share').number() ?? defaults.deletionGuard.share,
      count: guard.field('count').number() ?? defaults.deletionGuard.count,
      waitMs: guard.field('wait').durationMs('zero allowed') ?? defaults.deletionGuard.waitMs,
      then: oneOf(['proceed', 'keep'], guard.field('then').string()) ?? defaults.deletionGuard.then,
    },
  };
  if (policy.holdMaxMs < policy.holdMs) {
    const written = at.field('hold_max').present ? 'hold_max' : 'hold';
    at.field(written).problem('hold_max is less than hold');
  }
  return policy;
}

function readUseAlternativeWhen(at: Cursor): UseAlternativeWhen {
  const kind = oneOf(['unreachable', 'uncached'], at.string());
  if (kind !== undefined) return { kind };
  const staleAfterMs = at.field('stale_after').durationMs('more than zero');
  return staleAfterMs === undefined
    ? DEFAULT_FAILOVER.useAlternativeWhen
    : { kind: 'stale_after', staleAfterMs };
}

function oneOf<T extends string>(choices: readonly T[], value: string | undefined): T | undefined {
  return choices.find((choice) => choice === value);
}

function warnOfUnused(
  sources: readonly SourceEntry[],
  entries: ReadonlyMap<string, AuthorityEntry>,
  usedElsewhere: readonly string[],
): void {
  const used = new Set([
    ...[...entries.values()].flatMap(({ spec }) => spec.sources),
    ...usedElsewhere,
  ]);
  for (const { name, at, isDefault } of sources) {
    if (!isDefault && !used.has(name)) at.warn('no authority uses this source', undefined, 'key');
  }
}

/**
 * Warns of alternatives that are valid but rarely intended. The gateway follows one hop only: not
 * the alternative of an alternative.
 */
function warnOfAlternatives(
  spec: AuthoritySpec,
  at: Cursor,
  entries: ReadonlyMap<string, AuthorityEntry>,
): void {
  for (const { authority } of spec.alternatives) {
    const other = entries.get(authority)?.spec;
    if (other === undefined || authority === spec.name) continue;
    const name = JSON.stringify(authority);
    if (other.alternatives.some((next) => next.authority !== spec.name)) {
      at.warn(
        `the alternative ${name} has its own alternative, which the gateway does not use`,
        undefined,
        'key',
      );
    }
    if (spec.sources.length > 0 && spec.sources.every((source) => other.sources.includes(source))) {
      at.warn(
        `the alternative ${name} has the same sources, so both fail together`,
        undefined,
        'key',
      );
    }
  }
}
