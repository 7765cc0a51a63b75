/**
 * By which parts of a client's identity node groups differ: `differ_by`, the conditions of the entries,
 * and what the sources get of a client. And the checks of settings that need both ends.
 */
import type { NodeField, ScopeRule } from '../protos/node-scope.js';
import { IDENTITY_SETTINGS } from './forwarding-entries.js';
import type { GrpcSourceSpec, OldStyleEntrySpec, OldStyleSpec } from './model.js';
import type { SourceEntry } from './source-entries.js';

type DifferBy = OldStyleSpec['differBy'];

/** @returns undefined if groups differ by the fields of `differBy` alone. */
export function scopeRuleOf(
  differBy: DifferBy,
  servedBy: readonly OldStyleEntrySpec[],
  sources: Iterable<GrpcSourceSpec>,
): ScopeRule | undefined {
  const used = new Set(servedBy.flatMap((entry) => entry.sources));
  const specs = [...sources].filter(({ name }) => used.has(name));
  const conditions = servedBy.flatMap(({ when = [] }) => when.map(({ field }) => field));
  const written = differBy === 'all' ? [] : differBy;
  const fields = [...new Set([...written, ...conditions])];
  const wholeNode = differBy === 'all';
  const headers = new Set(specs.flatMap(({ forwardHeaders = [] }) => forwardHeaders));
  const forward = wholeNode ? undefined : forwardedPart(differBy, fields, specs);
  const certificate = specs.some(({ clientIdentity }) => clientIdentity !== undefined)
    ? 'whole'
    : specs.some(({ tlsByIdentity }) => tlsByIdentity !== undefined)
      ? 'names'
      : 'none';
  const isPlain =
    !wholeNode && conditions.length === 0 && headers.size === 0 && certificate === 'none';
  if (isPlain && forward === undefined) return undefined;
  return { fields, wholeNode, headers: [...headers].sort(), certificate, forward };
}

/** @returns undefined if it is `fields`. */
function forwardedPart(
  differBy: DifferBy,
  fields: readonly NodeField[],
  specs: readonly GrpcSourceSpec[],
): ScopeRule['forward'] {
  const parts = specs.filter(({ node }) => !node).map((spec) => spec.forwardNode ?? differBy);
  if (parts.length === 0) return undefined;
  if (parts.includes('all')) return 'all';
  const forwarded = new Set(parts.flatMap((part) => (part === 'all' ? [] : part)));
  const isSame = forwarded.size === fields.length && fields.every((field) => forwarded.has(field));
  return isSame ? undefined : [...forwarded].sort();
}

/** @param shared names of the sources that authorities use */
export function checkIdentities(
  sources: readonly SourceEntry[],
  oldStyle: OldStyleSpec | undefined,
  shared: ReadonlySet<string>,
): void {
  const used = new Set((oldStyle?.servedBy ?? []).flatMap((entry) => entry.sources));
  for (const { name, at, spec } of sources) {
    if (spec?.kind !== 'grpc') continue;
    if (used.has(name) && oldStyle) warnOfUndetermined(spec, at, oldStyle.differBy);
    if (!shared.has(name)) continue;
    for (const setting of IDENTITY_SETTINGS) {
      if (!at.field(setting).present) continue;
      if (used.has(name)) warnOfCommonStream(at, setting);
      else
        at.field(setting).problem(
          'has no client to take it from: only authorities use this source, and all clients share their names',
          'leave it out, or name the source in old_style_names.served_by',
          'key',
        );
    }
  }
}

/** The stream for names of authorities serves all clients, so the source may refuse it. */
function warnOfCommonStream(at: SourceEntry['at'], setting: string): void {
  at.field(setting).warn(
    'applies to old-style names only: the stream for names of authorities has no client to take it from',
    'give the authorities a source of their own, with credentials of the gateway if the source needs any',
    'key',
  );
}

/** Clients of one group may have other values than the one whose Node the sources get. */
function warnOfUndetermined(
  { forwardNode }: GrpcSourceSpec,
  at: SourceEntry['at'],
  differBy: DifferBy,
): void {
  if (forwardNode === undefined || differBy === 'all') return;
  const missing =
    forwardNode === 'all' ? ['all'] : forwardNode.filter((field) => !differBy.includes(field));
  if (missing.length === 0) return;
  const written = differBy.length === 0 ? '[]' : `[${differBy.join(', ')}]`;
  const remedy =
    forwardNode === 'all'
      ? 'write differ_by: all, or make sure that clients of one group have the same Node'
      : `add ${missing.join(', ')} to differ_by`;
  at.field('forward_node').warn(
    `differ_by: ${written} does not determine the forwarded Node: the source gets that of the first client of each group`,
    remedy,
    'key',
  );
}
