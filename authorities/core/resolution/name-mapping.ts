/**
 * The names of an alternative authority: `<primary>/T/<fromPrefix>rest` becomes
 * `<alternative>/T/<toPrefix>rest`, for every type T and with the same parameters (TP1 `alt`).
 */
import type { AlternativeSpec } from '../../../config/model.js';
import {
  oldStyleName,
  withAuthorityAndId,
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
    withAuthorityAndId(name, to, into + name.id.slice(from.length));
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

/** Maps old-style names between scopes, for a source that sends every scope the same resources. */
export function scopeMapping(asked: string, atSource: string): NameMapping {
  if (asked === atSource) return IDENTITY_MAPPING;
  return {
    ...IDENTITY_MAPPING,
    identity: false,
    toSource: (name) => oldStyleName(atSource, wireText(name.key)),
    toAsked: (name) => [oldStyleName(asked, wireText(name.key))],
  };
}
