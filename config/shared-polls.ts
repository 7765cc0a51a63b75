/**
 * Finds REST sources whose polls have old-style names and names of authorities together. A poll cannot request a
 * wildcard and names at once (docs/SPEC.md, "What each variant of a source does").
 */
import { isDeepStrictEqual } from 'node:util';
import type { GrpcSourceSpec, OldStyleSpec } from './model.js';
import type { SourceEntry } from './source-entries.js';

/** @param shared names of the sources of authorities */
export function checkSharedPolls(
  sources: readonly SourceEntry[],
  oldStyle: OldStyleSpec | undefined,
  shared: ReadonlySet<string>,
): void {
  if (!oldStyle) return;
  const used = new Set(oldStyle.servedBy.flatMap((entry) => entry.sources));
  const polled = sources.flatMap(({ name, at, spec }) =>
    spec?.kind === 'grpc' && spec.apiType === 'REST' ? [{ name, at, spec }] : [],
  );
  const common = polled.filter(({ name, spec }) => used.has(name) && isCommon(spec, oldStyle));
  for (const { name, at, spec } of polled) {
    if (!shared.has(name) || !common.some((one) => isSame(one.spec, spec))) continue;
    at.warn(
      'is polled for old-style names and for names of authorities together, and a poll cannot request a wildcard and ' +
        'names at once: listeners and clusters of the authorities come only if the wildcard has them too',
      'write two sources whose node has another id',
      'key',
    );
  }
}

/** Do all node groups share the stream for names of authorities? */
const isCommon = (spec: GrpcSourceSpec, { differBy, rule }: OldStyleSpec): boolean =>
  spec.node === undefined
    ? rule === undefined && differBy.length === 0
    : (spec.forwardHeaders ?? spec.clientIdentity ?? spec.tlsByIdentity) === undefined;

/** Equal sources are one, whatever their names. */
const isSame = (one: GrpcSourceSpec, other: GrpcSourceSpec): boolean =>
  isDeepStrictEqual({ ...one, name: '' }, { ...other, name: '' });
