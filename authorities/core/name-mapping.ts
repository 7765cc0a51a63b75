/**
 * The names of an alternative authority: `<primary>/T/<fromPrefix>rest` is
 * `<alternative>/T/<toPrefix>rest` there, for every type T and with the same parameters (TP1 `alt`).
 */
import type { AlternativeSpec } from '../../config/model.js';
import { withAuthorityAndId, type ResourceName } from '../../protos/resource-name.js';

export interface NameMapping {
  /** The name to ask the candidate for. */
  readonly toSource: (asked: ResourceName) => ResourceName;
  /** The name that a client knows a name of the candidate by; names outside of the mapping stay. */
  readonly toAsked: (published: ResourceName) => ResourceName;
  readonly identity: boolean;
}

export const IDENTITY_MAPPING: NameMapping = {
  toSource: (name) => name,
  toAsked: (name) => name,
  identity: true,
};

export function alternativeMapping(primary: string, alternative: AlternativeSpec): NameMapping {
  const { authority, fromPrefix, toPrefix } = alternative;
  const move = (name: ResourceName, to: string, from: string, into: string): ResourceName =>
    withAuthorityAndId(name, to, into + name.id.slice(from.length));
  return {
    identity: false,
    toSource: (asked) => move(asked, authority, fromPrefix, toPrefix),
    toAsked: (published) =>
      published.authority === authority && published.id.startsWith(toPrefix)
        ? move(published, primary, toPrefix, fromPrefix)
        : published,
  };
}
