/** A source from which a group can get its names, with the mapping to the names there. */
import type { NameMapping } from '../resolution/name-mapping.js';
import type { Source } from '../sources/source.js';

export interface Candidate {
  readonly source: Source;
  /** The authority whose names are requested from the source. */
  readonly authority: string;
  readonly mapping: NameMapping;
}
