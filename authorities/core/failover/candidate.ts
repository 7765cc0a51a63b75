/** One place where the names of a group are to be had. */
import type { NameMapping } from '../resolution/name-mapping.js';
import type { Source } from '../sources/source.js';

export interface Candidate {
  readonly source: Source;
  /** The authority whose names are asked there. */
  readonly authority: string;
  readonly mapping: NameMapping;
}
