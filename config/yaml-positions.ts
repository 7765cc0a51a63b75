import { Composer, isMap, isPair, isScalar, isSeq, Lexer, LineCounter, Parser, visit } from 'yaml';
import type { CST, Document, Node, ParsedNode } from 'yaml';
import { foreignCommentInLine, foreignComments } from './foreign-comments.js';
import { formatPath, type Path, type Problem } from './problems.js';

/** A document with more aliases counts as a "billion laughs" attack. */
const MAX_ALIASES = 100;

/**
 * Lists and maps in each other. The composer of the library is recursive, and V8 ends the process if it compiles a regular
 * expression where the stack is nearly full: that cannot be caught. Protobuf allows 100 messages in each other.
 */
export const MAX_DEPTH = 200;

/** The part of an entry that has the problem. */
export type Part = 'key' | 'value';

/** One YAML (or JSON) document as plain data, with the position of each value. */
export interface PositionedDocument {
  readonly value: unknown;
  /** A problem at `path`. If the document lacks `path`, the position is that of its nearest parent. */
  readonly problem: (path: Path, message: string, remedy?: string, part?: Part) => Problem;
}

export interface DocumentsRead {
  /** The readable documents, in their order. */
  readonly documents: readonly PositionedDocument[];
  /** A document is not in `documents`: it has a syntax error. */
  readonly isPartial: boolean;
  /** Syntax errors and duplicate keys. */
  readonly problems: readonly Problem[];
}

export interface ReadOptions {
  /** The text may have secrets, also at wrong places: problems do not quote it. Default false. */
  readonly isSecret?: boolean;
}

/** The errors of the library that quote the text, with words that do not. */
const WORDS_WITHOUT_TEXT: Readonly<Record<string, string>> = {
  BAD_DIRECTIVE: 'wrong directive',
  BAD_DQ_ESCAPE: 'invalid escape sequence',
  BAD_SCALAR_START: 'a plain value cannot start with this character',
  IMPOSSIBLE: 'cannot be read',
  TAG_RESOLVE_FAILED: 'unknown tag, or a value that does not fit its tag',
  UNEXPECTED_TOKEN: 'unexpected text',
};

/** The remedies of errors of the library, which has none, by its codes. */
const REMEDIES: Readonly<Record<string, string>> = {
  DUPLICATE_KEY: 'keep one',
  TAB_AS_INDENT: 'write spaces',
  BLOCK_AS_IMPLICIT_KEY: 'put a text with ": " in it into quotes',
};

/** A step of a path as problems show it. A key with other characters may be a misplaced value. */
const shownStep = (step: string | number): string | number =>
  typeof step === 'number' || /^@?[A-Za-z]{1,30}(_[A-Za-z0-9]{1,30}){0,8}$/.test(step)
    ? step
    : '(hidden)';

/**
 * Reads all documents of a YAML 1.2 text; JSON is YAML. At most `MAX_ALIASES` aliases and `MAX_DEPTH` levels, no merge
 * keys, no custom tags. Never throws.
 */
export function readDocuments(
  text: string,
  file: string,
  { isSecret = false }: ReadOptions = {},
): DocumentsRead {
  const lines = new LineCounter();
  const pathText = (path: Path): string => formatPath(isSecret ? path.map(shownStep) : path);
  const options = {
    version: '1.2',
    lineCounter: lines,
    prettyErrors: false,
    logLevel: 'silent',
  } as const;
  const at = (offset: number): Pick<Problem, 'file' | 'line' | 'column'> => {
    const { line, col } = lines.linePos(offset);
    return { file, line, column: col };
  };
  let list: readonly Document.Parsed[];
  try {
    list = [...new Composer(options).compose(tokensOf(text, lines))];
  } catch (error) {
    const place = at(error instanceof TooDeep ? error.offset : 0);
    return { documents: [], isPartial: true, problems: [unreadable(place, error)] };
  }
  const problems: Problem[] = [];
  const documents: PositionedDocument[] = [];
  const hasErrors = list.some(({ errors }) => errors.some(({ code }) => code !== 'DUPLICATE_KEY'));
  const comments = foreignComments(text, hasErrors);
  if (comments.length > 0) {
    const found = comments.map(({ offset, ...words }) => ({ ...at(offset), field: '', ...words }));
    return { documents: [], isPartial: true, problems: found };
  }
  for (const document of list) {
    let readable = true;
    for (const error of [...document.errors, ...document.warnings]) {
      if (error.code !== 'DUPLICATE_KEY') {
        readable = false;
        const comment = foreignCommentInLine(text, error.pos[0]);
        if (comment !== undefined) {
          const { offset, ...words } = comment;
          problems.push({ ...at(offset), field: '', ...words });
          continue;
        }
      }
      const words = isSecret ? WORDS_WITHOUT_TEXT[error.code] : undefined;
      const message = error.code === 'DUPLICATE_KEY' ? 'duplicate key' : (words ?? error.message);
      const field = error.code === 'DUPLICATE_KEY' ? pathText(pathTo(document, error.pos[0])) : '';
      const remedy = REMEDIES[error.code];
      const problem = { ...at(error.pos[0]), field, message };
      problems.push(remedy === undefined ? problem : { ...problem, remedy });
    }
    if (!readable) continue;
    const read = positioned(document, file, lines, isSecret, pathText);
    if ('message' in read) problems.push(read);
    else documents.push(read);
  }
  return { documents, isPartial: documents.length < list.length, problems };
}

class TooDeep extends Error {
  constructor(readonly offset: number) {
    super(`lists and maps are nested more than ${MAX_DEPTH} levels deep`);
  }
}

/** As `Parser.parse` of the library, which has no bound. Throws `TooDeep`. */
function* tokensOf(text: string, lines: LineCounter): Generator<CST.Token> {
  const parser = new Parser(lines.addNewLine);
  lines.addNewLine(0);
  for (const lexeme of new Lexer().lex(text)) {
    const { offset } = parser;
    yield* parser.next(lexeme);
    // Below the lists and maps is their document; at the top may be a text.
    const isTooDeep = parser.stack.length > MAX_DEPTH + 1 && 'items' in (parser.stack.at(-1) ?? {});
    if (isTooDeep) throw new TooDeep(offset);
  }
  yield* parser.end();
}

/** The path of the key at `offset`. */
function pathTo(document: Document.Parsed, offset: number): Path {
  let found: Path = [];
  visit(document, {
    Pair: (_, pair, ancestors) => {
      if (!isScalar(pair.key) || pair.key.range?.[0] !== offset) return undefined;
      const steps = [...ancestors, pair].flatMap(
        (node, index, nodes): readonly (string | number)[] => {
          if (isPair(node)) return isScalar(node.key) ? [String(node.key.value)] : [];
          const next = nodes[index + 1];
          return isSeq(node) ? [node.items.indexOf(next)] : [];
        },
      );
      found = steps;
      return visit.BREAK;
    },
  });
  return found;
}

function unreadable(place: Pick<Problem, 'file' | 'line' | 'column'>, error: unknown): Problem {
  return { ...place, field: '', message: error instanceof Error ? error.message : String(error) };
}

function positioned(
  document: Document.Parsed,
  file: string,
  lines: LineCounter,
  isSecret: boolean,
  pathText: (path: Path) => string,
): PositionedDocument | Problem {
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (error) {
    // Only `toJS` throws for unresolved or excessive aliases.
    const at = offsetOfDangling(document);
    if (at === undefined) {
      const start = { file, line: 1, column: 1 };
      return unreadable(start, isSecret ? 'too many aliases' : error);
    }
    const { line, col } = lines.linePos(at.offset);
    const message = isSecret ? 'an alias without an anchor' : `alias *${at.name} has no anchor`;
    const remedy = isSecret ? {} : { remedy: `write &${at.name} at an earlier value` };
    return { file, line, column: col, field: '', message, ...remedy };
  }
  const problem = (path: Path, message: string, remedy?: string, part: Part = 'value'): Problem => {
    const offset = offsetOf(document.contents, path, part);
    const { line, col } = lines.linePos(offset);
    const base = {
      file,
      line: Math.max(line, 1),
      column: Math.max(col, 1),
      field: pathText(path),
      message,
    };
    return remedy === undefined ? base : { ...base, remedy };
  };
  return { value, problem };
}

/** The first alias that has no anchor before it. */
function offsetOfDangling(
  document: Document.Parsed,
): { readonly name: string; readonly offset: number } | undefined {
  let found: { readonly name: string; readonly offset: number } | undefined;
  // `alias.resolve` would walk the whole document for each alias.
  const anchors = new Set<string>();
  visit(document, {
    Value: (_, { anchor }) => {
      if (anchor !== undefined) anchors.add(anchor);
    },
    Alias: (_, alias) => {
      if (anchors.has(alias.source)) return undefined;
      found = { name: alias.source, offset: alias.range?.[0] ?? 0 };
      return visit.BREAK;
    },
  });
  return found;
}

/** Offset of the value (or key) at `path`, or of the key of its nearest existing parent. */
function offsetOf(root: ParsedNode | null, path: Path, part: Part): number {
  let node: Node | null = root;
  let keyStart = startOf(root) ?? 0;
  for (const step of path) {
    const entry = entryOf(node, step);
    if (entry === undefined) return keyStart;
    keyStart = startOf(entry.key) ?? startOf(entry.value) ?? keyStart;
    node = entry.value;
  }
  return part === 'key' ? keyStart : (startOf(node) ?? keyStart);
}

function entryOf(
  node: Node | null,
  step: string | number,
): { readonly key: Node | null; readonly value: Node | null } | undefined {
  if (isSeq<Node>(node) && typeof step === 'number') {
    const item = node.items[step];
    return item === undefined ? undefined : { key: null, value: item };
  }
  if (!isMap<Node, Node | null>(node)) return undefined;
  const pair = node.items.find(
    (candidate) =>
      isPair(candidate) && isScalar(candidate.key) && String(candidate.key.value) === String(step),
  );
  return pair === undefined ? undefined : { key: pair.key, value: pair.value };
}

function startOf(node: Node | null): number | undefined {
  return node?.range?.[0];
}
