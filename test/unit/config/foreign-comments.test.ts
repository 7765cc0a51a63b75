/** Goal: a comment that YAML does not have is one error at its place, and text that looks like one is none. */
import t from 'tap';
import { formatProblem } from '../../../config/problems.js';
import { readDocuments } from '../../../config/yaml-positions.js';

const problemsOf = (text: string): readonly string[] =>
  readDocuments(text, 'f').problems.map(formatProblem);
const slashes = (place: string): string =>
  `f:${place}: a comment begins with #, not with // (write # in place of //)`;
const star = (place: string): string =>
  `f:${place}: a comment begins with #, not with /* (write # at the start of each line of it)`;

const FOREIGN: readonly (readonly [text: string, ...problems: readonly string[]])[] = [
  ['{\n  // the cloud\n  "a": 1 }', slashes('2:3')],
  ['{ "a": 1 // x\n}', slashes('1:10')],
  ['{ "a": 1 } // x', slashes('1:12')],
  ['// x\n{ "a": 1 }', slashes('1:1')],
  ['/* x\n y */ # z\n[ 1 ]', star('1:1')],
  [
    '{ /* x */ "a": 1, // y\n "b": \'//\', "c": "\\" // no" } /* no end',
    star('1:3'),
    slashes('1:19'),
    star('2:31'),
  ],
  ['{ "a": 1, //x\n "b": 2 }', slashes('1:11')],
  ['a: "1" // x\nb: 2', slashes('1:8')],
  ['// x\na: 1', slashes('1:1')],
  ['a: "1"\n// x\nb: 2', slashes('2:1')],
  ['a: 1\n/* x */\nb: 2', star('2:1')],
];

for (const [text, ...problems] of FOREIGN) {
  t.test(`comments that YAML lacks are named, and nothing else: ${JSON.stringify(text)}`, (t) => {
    t.strictSame(problemsOf(text), problems);
    t.end();
  });
}

t.test('the marks of such comments may stand in texts and in comments of YAML', (t) => {
  for (const text of [
    '{ "a": "// x", "b": "/* x */", "c": [\'{ // x\'] } # // x',
    '{ # , // x\n "a": 1 }',
    'a: http://x\nb: //x/y\nc: [http://x//y]',
    '{ "a": "http://x" }',
    '{ "a": //x/y, "b": [//x/y] }',
  ]) {
    t.strictSame(problemsOf(text), [], text);
  }
  t.notMatch(problemsOf('- a\nb: /y').join(), /comment/, 'another error');
  t.strictSame(problemsOf('{ "a": 1, "a": //x }'), ['f:1:11: a: duplicate key (keep one)']);
  t.end();
});
