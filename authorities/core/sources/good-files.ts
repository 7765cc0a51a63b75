/**
 * The last good content of each file in a directory: a half-written or invalid file keeps its
 * previous resources. The caller passes the parser and the files.
 */
import type { FileLoad, FileResource } from './file-source.js';

/** An existing file: its text, or why it cannot be read. */
export type FoundFile =
  | { readonly path: string; readonly text: string }
  | { readonly path: string; readonly problem: string };

export type ParsedText =
  | { readonly ok: true; readonly resources: readonly FileResource[] }
  | { readonly ok: false; readonly problems: readonly string[] };

export interface GoodLoad extends Omit<FileLoad, 'nowMs'> {
  readonly problems: readonly string[];
}

export class GoodFiles {
  readonly #parse: (text: string, path: string) => ParsedText;
  readonly #lastGood = new Map<string, { text: string; resources: readonly FileResource[] }>();

  constructor(parse: (text: string, path: string) => ParsedText) {
    this.#parse = parse;
  }

  /** @param files all existing files in order; the first file with a name wins. */
  load(files: readonly FoundFile[]): GoodLoad {
    const there = new Set(files.map(({ path }) => path));
    for (const known of this.#lastGood.keys()) if (!there.has(known)) this.#lastGood.delete(known);
    const problems = files.flatMap((file) => this.#read(file));
    const isWhole = files.every(({ path }) => this.#lastGood.has(path));
    const inOrder = files.flatMap(({ path }) => this.#lastGood.get(path)?.resources ?? []);
    return { resources: withoutDuplicates(inOrder, problems), isWhole, problems };
  }

  #read(file: FoundFile): readonly string[] {
    const { path } = file;
    if ('problem' in file) return [file.problem];
    const { text } = file;
    if (this.#lastGood.get(path)?.text === text) return [];
    const parsed = this.#parse(text, path);
    if (!parsed.ok) return parsed.problems;
    this.#lastGood.set(path, { text, resources: parsed.resources });
    return [];
  }
}

function withoutDuplicates(
  resources: readonly FileResource[],
  problems: string[],
): readonly FileResource[] {
  const seen = new Set<string>();
  return resources.filter(({ typeUrl, name }) => {
    const key = `${typeUrl} ${name}`;
    if (seen.has(key))
      problems.push(`${name}: in two files; the first in alphabetical order counts`);
    return seen.size !== seen.add(key).size;
  });
}
