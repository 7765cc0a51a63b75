/**
 * Goal: an authority map or a command that a document shows works as it is written.
 * Method: the fenced blocks of README.md, docs/ and examples/ are collected. Each YAML block with the keys of a map,
 * and each map of examples/, goes through the reader of maps; the files that they name are not looked for. Each line
 * of a shell block that starts `tributary` goes through the reader of the command line.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { parseAuthorityMap } from '../../../config/authority-map.js';
import { formatProblem } from '../../../config/problems.js';
import { readFlags } from '../../../config/setting-sources.js';
import { readArguments } from '../../../gateway/cli/arguments.js';
import { COMMANDS } from '../../../gateway/cli/run.js';
import {
  blocksIn,
  filesIn,
  linesIn,
  PAGES,
  shellBlocksIn,
  tributaryWords,
} from '../../support/documents.js';
import { root } from '../../support/program.js';

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
  const blocks = PAGES.flatMap(blocksIn);
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
  const lines = PAGES.flatMap(shellBlocksIn).flatMap((block) =>
    linesIn(block).flatMap((line) => {
      const words = tributaryWords(line);
      return words === undefined ? [] : [{ place: block.place, words }];
    }),
  );
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
      const words = tributaryWords(command.replaceAll('`', ''));
      if (words) t.equal(mistakeIn(words), undefined, row);
    }
    t.end();
  },
);

t.test('the check of commands finds a wrong command, flag and argument', (t) => {
  t.match(mistakeIn(['validat']), 'unknown command validat');
  t.match(mistakeIn(['validate']), 'FILE is missing');
  t.match(mistakeIn(['force', 'a', 'b', '--fro', '1m']), 'unknown flag --fro');
  t.match(mistakeIn(['serve', '--authority-mapp', 'x']), 'unknown flag');
  const text = '$ npx tributary get \\\n  URN # why\nls\n';
  const lines = linesIn({ place: '', language: '', text });
  t.same(lines.map(tributaryWords), [['get', 'URN'], undefined, undefined]);
  t.end();
});
