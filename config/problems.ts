/** An error in a file or a setting, with its place and a remedy. */
export interface Problem {
  /** Path of the file as given, or another origin of the value (`--flag`, an environment variable). */
  readonly file: string;
  /** 1-based; 0 without a file. */
  readonly line: number;
  /** 1-based, in UTF-16 code units; 0 without a file. */
  readonly column: number;
  /**
   * Path in the document, such as `authorities."cloud.example.com".failover.hold`; empty: the whole
   * document.
   */
  readonly field: string;
  readonly message: string;
  /** What to write in its place. */
  readonly remedy?: string;
}

/** Keys and indexes from the top of a document. */
export type Path = readonly (string | number)[];

/** `file:line:column: field: message (remedy)`, the form that editors and CI logs link. */
export function formatProblem(problem: Problem): string {
  const { file, line, column, field, message, remedy } = problem;
  const place = line === 0 ? file : `${file}:${line}:${column}`;
  const what = field === '' ? message : `${field}: ${message}`;
  return remedy === undefined ? `${place}: ${what}` : `${place}: ${what} (${remedy})`;
}

/** `['authorities', 'a.b', 'sources', 0]` → `authorities."a.b".sources[0]`. */
export function formatPath(path: Path): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else {
      const plain = /^[A-Za-z_][A-Za-z0-9_-]*$/.test(step);
      text += (text === '' ? '' : '.') + (plain ? step : JSON.stringify(step));
    }
  }
  return text;
}

/** Removes duplicates and sorts by place in the file. */
export function sortProblems(problems: readonly Problem[]): readonly Problem[] {
  const distinct = new Map(problems.map((problem) => [formatProblem(problem), problem]));
  return [...distinct.values()].sort(
    (a, b) =>
      a.line - b.line ||
      a.column - b.column ||
      compare(a.field, b.field) ||
      compare(a.message, b.message),
  );
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
