/**
 * Finds the comments of other languages, which begin with two slashes or with a slash and a star. YAML reads them as
 * text: its errors then name other places, or a comment becomes a part of a key.
 */

export interface ForeignComment {
  readonly offset: number;
  readonly message: string;
  readonly remedy: string;
}

/** Without its comments, the text begins with a bracket: JSON, or YAML that looks like it. */
function isInBrackets(text: string): boolean {
  const skipped = /[\s\uFEFF]+|#.*|\/\/.*|\/\*[^]*?\*\//y;
  let offset = 0;
  while (skipped.test(text)) offset = skipped.lastIndex;
  return '{['.includes(text[offset] ?? ' ');
}

/** Quoted texts, which may contain the marks, and comments. One without an end reaches to the end of the text. */
const PIECES =
  /"(?:[^"\\]|\\[^])*(?:"|$(?![^]))|(?<=^|[\s{}[\],:])'[^']*(?:'|$(?![^]))|(?<=^|[\s{}[\],"'])(?:#.*|\/\/.*|\/\*[^]*?(?:\*\/|$(?![^])))/gm;

/**
 * @param hasErrors YAML found errors in the text. Without them, a value may begin like a comment: `path: //host/share`
 * @returns all of a text in brackets
 */
export function foreignComments(text: string, hasErrors: boolean): readonly ForeignComment[] {
  if (!MARK.test(text) || !isInBrackets(text)) return [];
  return [...text.matchAll(PIECES)]
    .filter(({ 0: piece, index }) => isForeign(piece) && (hasErrors || !isValue(text, index)))
    .map(({ 0: piece, index }) => commentAt(index, piece));
}

/** Most files have none, and are not searched. */
const MARK = /(?:^|[\s{}[\],"'])\/[/*]/m;

const isForeign = (piece: string): boolean => piece.startsWith('//') || piece.startsWith('/*');

function isValue(text: string, offset: number): boolean {
  if (/\s/.test(text[offset + 2] ?? ' ')) return false;
  const before = /[^\s]\s*$/.exec(text.slice(Math.max(0, offset - 100), offset))?.[0][0];
  return before === ':' || before === '[';
}

/** @returns the comment of the line in which YAML found an error */
export function foreignCommentInLine(text: string, offset: number): ForeignComment | undefined {
  const start = text.lastIndexOf('\n', offset - 1) + 1;
  const end = text.indexOf('\n', offset);
  const line = text.slice(start, end < 0 ? undefined : end);
  // A value may begin like a comment too, such as the path `//host/share`.
  const found = /^\s*\/[/*]/.exec(line) ?? /\s\/[/*](?=\s)/.exec(line);
  if (found === null) return undefined;
  return commentAt(start + found.index + found[0].length - 2, found[0].slice(-2));
}

function commentAt(offset: number, piece: string): ForeignComment {
  const mark = piece.slice(0, 2);
  const remedy =
    mark === '//' ? 'write # in place of //' : 'write # at the start of each line of it';
  return { offset, message: `a comment begins with #, not with ${mark}`, remedy };
}
