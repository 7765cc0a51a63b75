/**
 * Parses a name that a source publishes, and checks whether the source may publish it (invariant
 * 11).
 */
import {
  isOldStyle,
  isXdstp,
  oldStyleName,
  parseResourceName,
  type ResourceName,
} from '../../../protos/resource-name.js';
import { mayLackName } from '../../../protos/type-urls.js';

/** The names that the map lets a source publish. */
export interface PublishingRights {
  /** May it publish `xdstp:` names of this authority? */
  readonly mayServe: (authority: string) => boolean;
  /** Absent: no old-style names. */
  readonly oldStyle?: {
    /** Scope of the clients for which this source's stream is open. */
    readonly scope: string;
    readonly mayServe: (typeUrl: string) => boolean;
  };
}

export type PublishedName =
  | { readonly ok: true; readonly name: ResourceName }
  | { readonly ok: false; readonly reason: string };

/** Whether the rights, which a new map may change, still include a name that was read under them before. */
export const mayPublish = (
  typeUrl: string,
  name: ResourceName,
  { mayServe, oldStyle }: PublishingRights,
): boolean =>
  oldStyle && isOldStyle(name) ? oldStyle.mayServe(typeUrl) : mayServe(name.authority);

export function readPublishedName(
  typeUrl: string,
  text: string,
  { mayServe, oldStyle }: PublishingRights,
): PublishedName {
  if (!isXdstp(text) && oldStyle?.mayServe(typeUrl) === true) {
    if (text === '' && !mayLackName(typeUrl)) return { ok: false, reason: 'is empty' };
    return { ok: true, name: oldStyleName(oldStyle.scope, text) };
  }
  const parsed = parseResourceName(text);
  if (!parsed.ok) return { ok: false, reason: `is not a resource name: ${parsed.error.message}` };
  const { authority } = parsed.value;
  if (mayServe(authority)) return { ok: true, name: parsed.value };
  return {
    ok: false,
    reason: `belongs to authority "${authority}", which this source does not serve`,
  };
}
