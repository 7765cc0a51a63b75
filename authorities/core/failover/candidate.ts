/** A source from which a group can get its names, with the mapping to the names there. */
import { DEFAULT_AUTHORITY } from '../../../config/defaults.js';
import type { NameMapping } from '../resolution/name-mapping.js';
import type { Source } from '../sources/source.js';

export interface Candidate {
  readonly source: Source;
  /** The authority whose names are requested from the source; `DEFAULT_AUTHORITY`: several. */
  readonly authority: string;
  readonly mapping: NameMapping;
}

/** May this candidate have names of the authority? One source may be two candidates of a group. */
export const hasNamesOf = (candidate: Candidate, authority: string): boolean =>
  candidate.authority === authority || candidate.authority === DEFAULT_AUTHORITY;

/** A reload may rename a source in the map, or give the name of a source another address. Both are the same source. */
export const hasSameSource = ({ source }: Candidate, other: Candidate | undefined): boolean =>
  source === other?.source || source.name === other?.source.name;
