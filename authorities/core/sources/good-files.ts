/**
 * The last good content of each file in a directory: a half-written or invalid file keeps its previous
 * resources, unless a valid document of it has a new version. A resource that is missing in such a file
 * stays too, since the invalid document may have it. The caller passes the parser and the files.
 */
import type { FileResource } from '../../../config/file-resource.js';
import type { FileLoad } from './file-source.js';

/** An existing file: its text, or why it cannot be read. */
export type FoundFile =
  | { readonly path: string; readonly text: string }
  | { readonly path: string; readonly problem: string };

export type ParsedText =
  | { readonly ok: true; readonly resources: readonly FileResource[] }
  | {
      readonly ok: false;
      readonly problems: readonly string[];
      /** The resources of the valid documents of the file. */
      readonly resources: readonly FileResource[];
    };

export interface GoodLoad extends Omit<FileLoad, 'nowMs'> {
  readonly problems: readonly string[];
}

interface GoodFile {
  /** Of the whole file; undefined: a part of the file is invalid. */
  readonly text: string | undefined;
  readonly resources: readonly FileResource[];
  /** Resources that it had before, and may have again. Any other file that has them counts. */
  readonly kept: readonly FileResource[];
  /** The whole file was valid once. */
  readonly isWhole: boolean;
}

const EMPTIED =
  'is empty, perhaps because a program is writing it: its last content stays (write [] into it to remove its resources)';

export class GoodFiles {
  readonly #parse: (text: string, path: string) => ParsedText;
  readonly #lastGood = new Map<string, GoodFile>();

  constructor(parse: (text: string, path: string) => ParsedText) {
    this.#parse = parse;
  }

  /**
   * The first file with a name wins, in the order of the paths. Content that a file only had before yields to any file that has it.
   *
   * @param files all existing files
   * @param closed directories that cannot be listed: files that were there keep their content
   */
  load(files: readonly FoundFile[], closed: readonly string[] = []): GoodLoad {
    const there = new Set(files.map(({ path }) => path));
    const isHidden = (path: string): boolean => closed.some((above) => isBelow(path, above));
    for (const known of this.#lastGood.keys()) {
      if (there.has(known)) continue;
      if (isHidden(known)) there.add(known);
      else this.#lastGood.delete(known);
    }
    const problems = files.flatMap((file) => this.#read(file));
    for (const path of there) if (isHidden(path)) this.#keep(path);
    const paths = [...there].sort();
    const inOrder = paths.map((path) => this.#lastGood.get(path));
    const wasListed = closed.every((above) => [...there].some((path) => isBelow(path, above)));
    const isWhole = wasListed && inOrder.every((file) => file?.isWhole === true);
    const resources = this.#inOrder(paths, problems);
    return { resources, isWhole, problems };
  }

  /** Will `load` parse this text? */
  isNew(path: string, text: string): boolean {
    return this.#lastGood.get(path)?.text !== text;
  }

  /** The resources of these files, then those that only were in them; of two with one name the first. */
  #inOrder(paths: readonly string[], problems: string[]): readonly FileResource[] {
    const seen = new Names();
    const all: FileResource[] = [];
    for (const path of paths) {
      for (const resource of this.#lastGood.get(path)?.resources ?? []) {
        const first = seen.add(resource, path);
        if (first === undefined) all.push(resource);
        else
          problems.push(
            `${path}: ${resource.name} is in ${first}, too, and that one counts (remove one)`,
          );
      }
    }
    for (const path of paths) {
      for (const resource of this.#lastGood.get(path)?.kept ?? []) {
        if (seen.add(resource, path) === undefined) all.push(resource);
      }
    }
    return all;
  }

  /** What the file has now is unknown. */
  #keep(path: string): void {
    const known = this.#lastGood.get(path);
    if (known) this.#lastGood.set(path, keptWith([], known));
  }

  #read(file: FoundFile): readonly string[] {
    const { path } = file;
    if ('problem' in file) {
      this.#keep(path);
      return [file.problem];
    }
    const { text } = file;
    if (!this.isNew(path, text)) return [];
    const known = this.#lastGood.get(path);
    // A program that writes a file in place empties it first.
    if (text === '' && known && known.resources.length + known.kept.length > 0) {
      this.#keep(path);
      return [`${path}: ${EMPTIED}`];
    }
    const parsed = this.#parse(text, path);
    const { resources } = parsed;
    if (parsed.ok) {
      this.#lastGood.set(path, { text, resources, kept: [], isWhole: true });
      return [];
    }
    if (known || resources.length > 0) this.#lastGood.set(path, keptWith(resources, known));
    return parsed.problems;
  }
}

const isBelow = (path: string, directory: string): boolean => path.startsWith(`${directory}/`);

/** @returns the file with these resources, which keeps those that it had under other names. */
function keptWith(resources: readonly FileResource[], before: GoodFile | undefined): GoodFile {
  const names = new Names();
  for (const resource of resources) names.add(resource, '');
  const had = [...(before?.resources ?? []), ...(before?.kept ?? [])];
  const kept = had.filter((resource) => !names.has(resource));
  return { text: undefined, resources, kept, isWhole: before?.isWhole === true };
}

/** Names by type, with the file of each. */
class Names {
  readonly #byType = new Map<string, Map<string, string>>();

  /** @returns the file that had the name before; undefined: the name is new */
  add({ typeUrl, name }: FileResource, path: string): string | undefined {
    let names = this.#byType.get(typeUrl);
    if (!names) this.#byType.set(typeUrl, (names = new Map<string, string>()));
    const first = names.get(name);
    if (first === undefined) names.set(name, path);
    return first;
  }

  has({ typeUrl, name }: FileResource): boolean {
    return this.#byType.get(typeUrl)?.has(name) === true;
  }
}
