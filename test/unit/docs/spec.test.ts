/**
 * Goal: each test title that docs/SPEC.md cites is the title of a test.
 * Method: titles are collected from the syntax trees of all test files, so that a cited assertion
 * message, comment or part of a title fails.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import ts from 'typescript';

const root = fileURLToPath(new URL('../../../../', import.meta.url));
const rows = readFileSync(join(root, 'docs/SPEC.md'), 'utf8')
  .split('\n')
  .filter((line) => /^\| \d+ \|/.test(line));
const patterns = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.test.ts'))
  .flatMap((file) => titlesIn(readFileSync(join(root, 'test', file), 'utf8')));
const isTitle = anyOf(patterns);

/** Regular expressions that match the titles of the tests in a source file. */
function titlesIn(source: string): string[] {
  const file = ts.createSourceFile('', source, ts.ScriptTarget.ESNext);
  const rowTitles: string[] = [];
  const titles: ts.Expression[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isPropertyAssignment(node) && isNamed(node.name, 'title')) {
      rowTitles.push(patternOf(node.initializer, '.+'));
    }
    const [title, ...rest] = ts.isCallExpression(node) ? node.arguments : [];
    if (ts.isCallExpression(node) && isTest(node.expression) && title !== undefined) {
      if (rest.length > 0) titles.push(title);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  const rowTitle = rowTitles.length > 0 ? `(?:${rowTitles.join('|')})` : '.+';
  // A title without any literal text matches every citation.
  return titles.map((title) => patternOf(title, rowTitle)).filter((pattern) => pattern !== '.+');
}

/** True for `test` and `t.test`, false for the method of a regular expression. */
function isTest(callee: ts.Expression): boolean {
  if (ts.isIdentifier(callee)) return isNamed(callee, 'test');
  if (!ts.isPropertyAccessExpression(callee)) return false;
  return isNamed(callee.name, 'test') && isNamed(callee.expression, 't');
}

function isNamed(node: ts.Node, name: string): boolean {
  return ts.isIdentifier(node) && node.text === name;
}

/** @param rowTitle The pattern of the property `title` of a table's row. */
function patternOf(text: ts.Expression, rowTitle: string): string {
  if (ts.isStringLiteralLike(text)) return literally(text.text);
  if (ts.isTemplateExpression(text)) {
    const spans = text.templateSpans.map(
      ({ expression, literal }) => patternOf(expression, rowTitle) + literally(literal.text),
    );
    return literally(text.head.text) + spans.join('');
  }
  if (ts.isBinaryExpression(text) && text.operatorToken.kind === ts.SyntaxKind.PlusToken) {
    return patternOf(text.left, rowTitle) + patternOf(text.right, rowTitle);
  }
  return isNamed(text, 'title') || isTitleProperty(text) ? rowTitle : '.+';
}

function isTitleProperty(text: ts.Expression): boolean {
  return ts.isPropertyAccessExpression(text) && isNamed(text.name, 'title');
}

function literally(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}

function anyOf(patterns: readonly string[]): (title: string) => boolean {
  const all = new RegExp(`^(?:${patterns.join('|')})$`);
  return (title) => all.test(title);
}

t.test('titles are collected from literals, templates, concatenations and tables', (t) => {
  const isTitleHere = anyOf(
    titlesIn(`
      t.test('a (literal) title', (t) => t.ok(true, 'a message'));
      test(\`\${name}: a template\`, () => {});
      t.test('one ' + \`text of \${count}\`, { timeout: 1 }, () => {});
      for (const { title } of [{ title: 'first row' }, { title: 'second row' }]) {
        t.test(title, () => {});
        t.test(\`\${row.title} again\`, () => {});
      }
      t.test(unknown, () => {});
      /pattern/.test('a tested text', 1);
    `),
  );
  const titles = ['a (literal) title', 'go: a template', 'one text of 2', 'first row'];
  for (const title of [...titles, 'second row again']) t.ok(isTitleHere(title), title);
  const others = [
    'a (literal)',
    'a message',
    'a template',
    'third row',
    'a tested text',
    'unknown',
  ];
  for (const text of others) t.notOk(isTitleHere(text), text);
  t.end();
});

t.test('the table has every invariant, and each citation is the title of a test', (t) => {
  const numbers = rows.map((row) => Number(row.split('|')[1]));
  const all = Array.from({ length: 23 }, (_, at) => at + 1);
  t.strictSame(numbers, all);
  for (const row of rows) {
    const [, number, , heldBy = ''] = row.split('|');
    t.not(heldBy.trim(), '', `invariant ${String(number)} is checked by a test`);
    for (const [, title = ''] of heldBy.matchAll(/`([^`]+)`/g)) {
      if (/\.(js|cjs)$/.test(title)) continue;
      t.ok(isTitle(title), title);
    }
  }
  t.end();
});
