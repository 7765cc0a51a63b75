/**
 * The names of an alternative authority: `<primary>/T/<fromPrefix>rest` becomes
 * `<alternative>/T/<toPrefix>rest`, for every type T and with the same parameters (TP1 `alt`).
 */
import type { AlternativeSpec } from '../../../config/model.js';
import {
  oldStyleName,
  withAuthorityAndId,
  withParameters,
  type VariantNames,
  wireText,
  type ResourceName,
} from '../../../protos/resource-name.js';

export interface NameMapping {
  /** The name to request from the candidate. */
  readonly toSource: (asked: ResourceName) => ResourceName;
  /**
   * The requested names under which a name of the candidate is served; itself outside of the
   * mapping.
   */
  readonly toAsked: (published: ResourceName) => readonly ResourceName[];
  /** Rewrites a reference to a name of the candidate for the client. */
  readonly toReference: (published: ResourceName) => ResourceName;
  readonly identity: boolean;
}

export const IDENTITY_MAPPING: NameMapping = {
  toSource: (name) => name,
  toAsked: (name) => [name],
  toReference: (name) => name,
  identity: true,
};

export function alternativeMapping(primary: string, alternative: AlternativeSpec): NameMapping {
  const { authority, fromPrefix, toPrefix } = alternative;
  const move = (name: ResourceName, to: string, from: string, into: string): ResourceName =>
    withParameters(
      withAuthorityAndId(name, to, into + name.id.slice(from.length)),
      name.parameters ?? '',
    );
  const back = (published: ResourceName): ResourceName =>
    published.authority === authority && published.id.startsWith(toPrefix)
      ? move(published, primary, toPrefix, fromPrefix)
      : published;
  return {
    identity: false,
    toSource: (asked) => move(asked, authority, fromPrefix, toPrefix),
    toAsked: (published) => [back(published)],
    toReference: back,
  };
}

/** Applies two mappings: requested names → names of `first` → names of `then`. */
export function through(first: NameMapping, then: NameMapping): NameMapping {
  if (first.identity) return then;
  return {
    identity: false,
    toSource: (asked) => then.toSource(first.toSource(asked)),
    toAsked: (published) => then.toAsked(published).flatMap(first.toAsked),
    toReference: (published) => first.toReference(then.toReference(published)),
  };
}

/**
 * For a source without dynamic parameters (TP2): a name is requested without them, and what comes is served to each name that differs
 * by its parameters only. `projectedAs` judges the constraints.
 */
export function withoutParameters(inner: NameMapping, variants: VariantNames): NameMapping {
  return {
    get identity() {
      return variants.isEmpty && inner.identity;
    },
    toSource: (asked) => inner.toSource(withParameters(asked, '')),
    toAsked: (published) => {
      const asked = inner.toAsked(published);
      return variants.isEmpty ? asked : asked.flatMap((name) => [name, ...variants.of(name)]);
    },
    toReference: inner.toReference,
  };
}

const inScope = (scope: string, { key, parameters = '' }: ResourceName): ResourceName =>
  withParameters(oldStyleName(scope, wireText(key)), parameters);

/** Maps old-style names between scopes, for a source that sends every scope the same resources. */
export function scopeMapping(asked: string, atSource: string): NameMapping {
  if (asked === atSource) return IDENTITY_MAPPING;
  return {
    ...IDENTITY_MAPPING,
    identity: false,
    toSource: (name) => inScope(atSource, name),
    toAsked: (name) => [inScope(asked, name)],
  };
}
