/**
 * Goal: an authority map or a command that a document shows works as it is written.
 * Method: the fenced blocks of README.md, docs/ and examples/ are collected. Each YAML block with the keys of a map,
 * and each map of examples/, goes through the reader of maps; the files that they name are not looked for. Each line
 * of a shell block that starts `tributary` goes through the reader of the command line.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { parse } from 'yaml';
import { parseAuthorityMap } from '../../../config/authority-map.js';
import { formatProblem } from '../../../config/problems.js';
import { readFlags } from '../../../config/setting-sources.js';
import { readArguments } from '../../../gateway/cli/arguments.js';
import { COMMANDS } from '../../../gateway/cli/run.js';

const root = fileURLToPath(new URL('../../../../', import.meta.url));
const filesIn = (folder: string, ending: string): readonly string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith(ending))
    .map((file) => join(folder, file));
const pages = ['README.md', ...filesIn('docs', '.md'), ...filesIn('examples', '.md')];

interface Block {
  /** `docs/MAP.md:12` */
  readonly place: string;
  readonly language: string;
  readonly text: string;
}

const blocks = pages.flatMap((page) => blocksIn(page, readFileSync(join(root, page), 'utf8')));

function blocksIn(page: string, text: string): readonly Block[] {
  return [...text.matchAll(/^ *```(\w*)\n(.*?)^ *```$/gms)].map((match) => {
    const [, language = '', body = ''] = match;
    const line = text.slice(0, match.index).split('\n').length;
    return { place: `${page}:${line}`, language, text: body };
  });
}

const MAP_KEYS = ['sources', 'config_sources', 'authorities', 'old_style_names'];

/** Whether the text is a whole authority map, and not a part of one or another file. */
function isMap(text: string): boolean {
  try {
    const value: unknown = parse(text);
    const keys = value !== null && typeof value === 'object' ? Object.keys(value) : [];
    return MAP_KEYS.some((key) => keys.includes(key));
  } catch {
    return true;
  }
}

function problemsOfMap(text: string, file: string): readonly string[] {
  const read = parseAuthorityMap(text, { file });
  return read.ok ? [] : read.problems.map(formatProblem);
}

/** The commands of a shell block, each as words: lines are joined; comments, pipes and redirections left out. */
function commandsIn(text: string): readonly (readonly string[])[] {
  return text
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .map((line) => /^(?:\$ )?(?:npx )?tributary (.*)$/.exec(line)?.[1])
    .filter((line) => line !== undefined)
    .map((line) =>
      line
        .replace(/ +[#>|&].*$/, '')
        .trim()
        .split(/ +/),
    );
}

/** @returns the mistake in the words of the command line, or undefined */
function mistakeIn([name = '', ...rest]: readonly string[]): string | undefined {
  if (name === '--version' || name === '--help') return undefined;
  const command = COMMANDS.find((known) => known.name === name);
  if (command === undefined) return `unknown command ${name}`;
  if ('runRaw' in command) return name === 'serve' ? flagMistake(rest) : undefined;
  try {
    readArguments(rest, command);
    return undefined;
  } catch (error) {
    return String(error);
  }
}

const flagMistake = (flags: readonly string[]): string | undefined =>
  readFlags(flags).problems.map(formatProblem)[0];

t.test('each authority map in a document is valid', (t) => {
  const maps = blocks.filter(({ language, text }) => language === 'yaml' && isMap(text));
  t.ok(maps.length >= 25, `${maps.length} maps`);
  for (const { place, text } of maps) t.same(problemsOfMap(text, place), [], place);
  t.end();
});

t.test('each authority map of examples/ is valid', (t) => {
  const maps = filesIn('examples', '.yaml').filter((file) =>
    /authority-map|instances\/[ab]\./.test(file),
  );
  t.ok(maps.length >= 7, `${maps.length} maps`);
  for (const file of maps) {
    const text = readFileSync(join(root, file), 'utf8');
    if (isMap(text)) t.same(problemsOfMap(text, file), [], file);
  }
  t.end();
});

t.test('each command in a document is one that the command line takes', (t) => {
  const lines = blocks
    .filter(({ language }) => ['', 'console', 'sh', 'bash'].includes(language))
    .flatMap(({ place, text }) => commandsIn(text).map((words) => ({ place, words })));
  t.ok(lines.length >= 20, `${lines.length} commands`);
  for (const { place, words } of lines) {
    t.equal(mistakeIn(words), undefined, `${place}: tributary ${words.join(' ')}`);
  }
  t.end();
});

t.test(
  'docs/guides/troubleshooting.md: each row has a command that the command line takes',
  (t) => {
    const page = readFileSync(join(root, 'docs/guides/troubleshooting.md'), 'utf8');
    const rows = page
      .split('\n')
      .filter((line) => line.startsWith('| '))
      .slice(1);
    t.ok(rows.length >= 10, `${rows.length} rows`);
    for (const row of rows) {
      const [, , command = ''] = row.split('|').map((cell) => cell.trim());
      t.match(command, /^`(tributary|curl|npm start) .*`$/, row);
      const words = commandsIn(command.replaceAll('`', '')).flat();
      if (words.length > 0) t.equal(mistakeIn(words), undefined, row);
    }
    t.end();
  },
);

t.test('the check of commands finds a wrong command, flag and argument', (t) => {
  t.match(mistakeIn(['validat']), 'unknown command validat');
  t.match(mistakeIn(['validate']), 'FILE is missing');
  t.match(mistakeIn(['force', 'a', 'b', '--fro', '1m']), 'unknown flag --fro');
  t.match(mistakeIn(['serve', '--authority-mapp', 'x']), 'unknown flag');
  t.same(commandsIn('$ npx tributary get \\\n  URN # why\nls\n'), [['get', 'URN']]);
  t.end();
});
