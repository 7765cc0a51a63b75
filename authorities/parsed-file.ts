/** A file of resources, read for `GoodFiles`: problems are texts. */
import { formatProblem } from '../config/problems.js';
import { parseResourceFile } from '../config/resource-file.js';
import type { ParsedText } from './core/sources/good-files.js';

export function parsedFile(text: string, path: string): ParsedText {
  const parsed = parseResourceFile(text, path);
  return parsed.ok ? parsed : { ...parsed, problems: parsed.problems.map(formatProblem) };
}
