/** The documents of the project: their fenced blocks, and the commands that they show. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './program.js';

/** Paths from the root of the project. */
export const filesIn = (folder: string, ending: string): readonly string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith(ending))
    .map((file) => join(folder, file));

export const PAGES = ['README.md', ...filesIn('docs', '.md'), ...filesIn('examples', '.md')];

export interface Block {
  /** `docs/MAP.md:12` */
  readonly place: string;
  readonly language: string;
  readonly text: string;
}

const FENCED = /^ *```(\w*)\n(.*?)^ *```$/gms;
const SHELL_LANGUAGES = ['', 'console', 'sh', 'bash'];

export function blocksIn(page: string): readonly Block[] {
  const text = readFileSync(join(root, page), 'utf8');
  return [...text.matchAll(FENCED)].map((match) => {
    const [, language = '', body = ''] = match;
    const line = text.slice(0, match.index).split('\n').length;
    return { place: `${page}:${line}`, language, text: body };
  });
}

/** Blocks that may have commands. */
export const shellBlocksIn = (page: string): readonly Block[] =>
  blocksIn(page).filter(({ language }) => SHELL_LANGUAGES.includes(language));

/** Texts in backquotes outside of the fenced blocks. */
export function quotedIn(page: string): readonly string[] {
  const text = readFileSync(join(root, page), 'utf8').replaceAll(FENCED, '');
  return [...text.matchAll(/`([^`\n]+)`/g)].map(([, quoted = '']) => quoted);
}

/** The lines of a block; those that a backslash joins are one. Without prompts and comments. */
export function linesIn({ text }: Block): readonly string[] {
  const lines = text.replaceAll(/\\\n\s*/g, '').split('\n');
  return lines.map((line) =>
    line
      .replace(/^\$ /, '')
      .replace(/ +#.*$/, '')
      .trim(),
  );
}

/** The words of a command of `tributary`, without pipes and redirections; undefined: it is another command. */
export function tributaryWords(line: string): readonly string[] | undefined {
  const rest = /^(?:npx )?tributary (.*)$/.exec(line)?.[1];
  return rest
    ?.replace(/ +[>|&].*$/, '')
    .trim()
    .split(/ +/);
}
