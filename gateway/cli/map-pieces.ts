/** Reads and checks an authority map, and gives the result in pieces that are small enough to send. */
import { createHash } from 'node:crypto';
import { loadAuthorityMap } from '../../config/authority-map.js';
import type { AuthorityMap, AuthoritySpec, SourceSpec } from '../../config/model.js';
import { formatProblem } from '../../config/problems.js';
import { readRegularFile } from '../../config/regular-file.js';

/** The map without its two large tables. */
export type MapRest = Omit<AuthorityMap, 'sources' | 'authorities'>;

export interface MapTask {
  /** Absolute path. */
  readonly file: string;
  /** The digest of the text in force. The worker reads no further if the file has the same text. */
  readonly unlessDigest?: string | undefined;
}

export type MapPiece =
  /** The file has the text that `unlessDigest` describes. */
  | { readonly kind: 'same' }
  /** Each text is one problem, `file:line:column: …`. `digest`: undefined if the file cannot be read. */
  | {
      readonly kind: 'refused';
      readonly digest: string | undefined;
      readonly problems: readonly string[];
    }
  | { readonly kind: 'sources'; readonly entries: readonly (readonly [string, SourceSpec])[] }
  | {
      readonly kind: 'authorities';
      readonly entries: readonly (readonly [string, AuthoritySpec])[];
    }
  /** The last piece. */
  | {
      readonly kind: 'rest';
      readonly digest: string | undefined;
      readonly rest: MapRest;
      readonly warnings: readonly string[];
    };

const ENTRIES_PER_PIECE = 250;
/** A wrong map of 32,000 authorities may have as many problems. */
const MAX_PROBLEMS = 100;

/** A digest of the text of a map; undefined if it cannot be read. */
export function digestOf(file: string): string | undefined {
  try {
    return createHash('sha256').update(readRegularFile(file)).digest('hex');
  } catch {
    return undefined; // `loadAuthorityMap` words the reason.
  }
}

/** @yields `same` or `refused` alone, or any number of tables and then `rest` */
export function* piecesOf({ file, unlessDigest }: MapTask): Generator<MapPiece, void> {
  const digest = digestOf(file);
  if (digest !== undefined && digest === unlessDigest) {
    yield { kind: 'same' };
    return;
  }
  const loaded = loadAuthorityMap(file);
  if (!loaded.ok) {
    yield { kind: 'refused', digest, problems: firstOf(loaded.problems.map(formatProblem)) };
    return;
  }
  const { sources, authorities, ...rest } = loaded.map;
  for (const entries of chunksOf([...sources])) yield { kind: 'sources', entries };
  for (const entries of chunksOf([...authorities])) yield { kind: 'authorities', entries };
  yield { kind: 'rest', digest, rest, warnings: firstOf(loaded.warnings.map(formatProblem)) };
}

function* chunksOf<T>(all: readonly T[]): Generator<readonly T[], void> {
  for (let from = 0; from < all.length; from += ENTRIES_PER_PIECE) {
    yield all.slice(from, from + ENTRIES_PER_PIECE);
  }
}

function firstOf(texts: readonly string[]): readonly string[] {
  if (texts.length <= MAX_PROBLEMS) return texts;
  return [...texts.slice(0, MAX_PROBLEMS), `and ${texts.length - MAX_PROBLEMS} more`];
}
