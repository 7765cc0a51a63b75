/**
 * Goal: a command of a document can be run: its script, program, endpoint and file exist.
 * Method: each line of the shell blocks of README.md, docs/, examples/ and CONTRIBUTING.md, and each command in
 * backquotes there. Lines that begin with no known program are outputs and drawings. The commands of `tributary` are
 * checked in examples.test.ts, and those of docs/ run in test/integration/documented-commands.test.ts.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ROUTES } from '../../../gateway/admin/routes.js';
import { linesIn, PAGES, quotedIn, shellBlocksIn } from '../../support/documents.js';
import { root } from '../../support/program.js';

const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly scripts: Readonly<Record<string, string>>;
};
const provisioner = readFileSync(join(root, 'scripts/provision.mjs'), 'utf8');

/** The program → what is wrong with the words after it; undefined: nothing. */
const CHECKS: Readonly<Record<string, (words: readonly string[]) => string | undefined>> = {
  npm: npmMistake,
  node: nodeMistake,
  curl: curlMistake,
  // The commands of examples/ and of the README's tours run in the tests of these.
  npx: ([program]) => (program === 'tributary' ? undefined : `npx ${program}`),
};

/** Programs of others, each with the test that runs it, or the reason why none does. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  tributary: 'test/unit/docs/examples.test.ts, test/integration/documented-commands.test.ts',
  envoy: 'test/interop/example-quickstart.test.ts',
  grpcurl: 'test/interop/admin-grpc.test.ts',
  'nats-server': 'test/interop/two-instances.test.ts',
  docker:
    'no registry has a container engine; test/interop/deploy/packaging.test.ts reads the Dockerfile',
  helm: 'no registry has a cluster; test/interop/deploy/chart-settings.test.ts renders the chart',
  kubectl: 'no registry has a cluster',
  systemctl: 'the tests do not run as the init system; packaging.test.ts reads the unit',
  install: 'it writes to /usr and /etc; packaging.test.ts reads the unit that needs the files',
  cp: 'the same as install',
  ssh: 'it needs another machine',
};

function npmMistake([verb = '', name = '', ...rest]: readonly string[]): string | undefined {
  if (['ci', 'link', 'install', 'prune', 'pack'].includes(verb)) return undefined;
  const isShort = verb === 'test' || verb === 'start';
  const words = [name, ...rest].filter((word) => !word.startsWith('--') || word === '--');
  const script = isShort ? verb : words[0];
  if (verb !== 'run' && !isShort) return `npm ${verb}`;
  if (script === undefined || scripts[script] === undefined) return `no script ${script}`;
  if (script === 'provision') {
    const missing = words
      .slice(1)
      .find((peer) => !provisioner.includes(`'${peer}'`) && !provisioner.includes(`${peer}:`));
    return missing === undefined ? undefined : `no peer ${missing}`;
  }
  if (script !== 'attacks') return undefined;
  const [, , word] = words;
  const files = readdirSync(join(root, 'test/attacks'));
  const isFound =
    word === undefined || word === 'WORD' || files.some((file) => file.includes(word));
  return isFound ? undefined : `no attack ${word}`;
}

/** A compiled file has a source. `…` and WORDS in capitals stand for names. */
function nodeMistake([file = '', tier = '']: readonly string[]): string | undefined {
  if (file.includes('…')) return undefined;
  const source = file.replace(/^build\/(.*)\.js$/, '$1.ts');
  if (!existsSync(join(root, source))) return `no file ${source}`;
  const isTier = file !== 'scripts/test.mjs' || /^(unit|integration|interop|attacks)$/.test(tier);
  return isTier ? undefined : `no tier ${tier}`;
}

/** Of the admin port, at its address of each example; the ports 10000 are those of Envoy. */
function curlMistake(words: readonly string[]): string | undefined {
  const url = words.find((word) => /^(https?:\/\/)?127\.0\.0\.1:/.test(word)) ?? '';
  const [, port, path = ''] = /:(\d+)(\/[^?#]*)?/.exec(url.replace(/^https?:/, '')) ?? [];
  if (port === '10000') return undefined;
  if (port === undefined || !/^1890\d$/.test(port)) return `the address ${url}`;
  return ROUTES.some(({ matches }) => matches(path)) ? undefined : `no endpoint ${path}`;
}

const PROGRAMS = [...Object.keys(CHECKS), ...Object.keys(ELSEWHERE)];

/** The commands of a line: `a && b`, `a | b`; what begins with no known program is none. */
function commandsOf(line: string): readonly (readonly string[])[] {
  return line
    .split(/ +(?:&&|\|) +/)
    .map((command) => command.replace(/^(?:[A-Z_]+=\S+ )+/, '').split(/ +/))
    .filter(([program = '']) => PROGRAMS.includes(program));
}

const pages = [...PAGES, 'CONTRIBUTING.md'];

t.test('each command in a document has its script, file, endpoint, or a test that runs it', (t) => {
  let count = 0;
  for (const page of pages) {
    const quoted = quotedIn(page);
    const fenced = shellBlocksIn(page).flatMap(linesIn);
    for (const line of [...quoted, ...fenced]) {
      for (const [program = '', ...words] of commandsOf(line)) {
        count++;
        t.equal(CHECKS[program]?.(words), undefined, `${page}: ${line}`);
      }
    }
  }
  t.ok(count >= 150, `${count} commands`);
  t.end();
});

t.test('the tests that are said to run the programs of others exist', (t) => {
  for (const [program, where] of Object.entries(ELSEWHERE)) {
    const files = where.match(/test\/\S+\.test\.ts/g) ?? [];
    for (const file of files) t.ok(existsSync(join(root, file)), `${program}: ${file}`);
  }
  t.end();
});

t.test('the check finds a missing script, file, peer, attack and endpoint', (t) => {
  const mistakes = [
    npmMistake(['run', 'nosuch']),
    npmMistake(['run', 'provision', 'nosuch']),
    npmMistake(['run', 'attacks', '--', 'nosuch']),
    npmMistake(['nosuch']),
    nodeMistake(['build/no/such.js']),
    nodeMistake(['scripts/test.mjs', 'nosuch']),
    curlMistake(['127.0.0.1:18900/nosuch']),
    curlMistake(['127.0.0.1:1/ready']),
  ];
  t.equal(mistakes.filter((mistake) => mistake === undefined).length, 0, mistakes.join());
  t.end();
});
