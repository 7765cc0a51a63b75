/**
 * Goal: zsh and fish complete every command, flag, choice and file (docs/OPERATIONS.md, "Shells").
 * Method: the real shells, as scripts/provision.mjs unpacks them; the unit test asks bash.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { completionScript } from '../../gateway/cli/completion.js';
import { COMMANDS } from '../../gateway/cli/run.js';
import { peerPath, projectRoot, skipWithout } from './peers/provisioned.js';

t.setTimeout(120_000);

const execute = promisify(execFile);

/** What a shell offers for a command line with the cursor at its end. */
type Offer = (line: string) => Promise<readonly string[]>;

const linesOf = (text: string): readonly string[] => text.split('\n').filter((line) => line !== '');

function folderWith(t: Test, files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-completion-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true });
  });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

/** The folder into which the packages of a shell were unpacked. @param binary `…/bin/zsh` or `…/usr/bin/zsh` */
function unpackedAt(binary: string): string {
  const folder = dirname(dirname(binary));
  return folder.endsWith('/usr') ? dirname(folder) : folder;
}

/** The folder of libraries of this machine's architecture. */
function librariesIn(root: string): string {
  const libraries = join(root, 'usr', 'lib');
  const name = readdirSync(libraries).find((one) => one.endsWith('-linux-gnu'));
  return join(libraries, name ?? '');
}

/**
 * zsh completes only at a prompt on a terminal. So an outer zsh opens one for an inner zsh, whose prompt has the
 * line, notes what is offered, and ends.
 */
function zshOffer(t: Test): Offer {
  const zsh = peerPath('zsh');
  const root = unpackedAt(zsh);
  const modules = join(librariesIn(root), 'zsh');
  const [version = ''] = existsSync(modules) ? readdirSync(modules) : [];
  const modulePath = `module_path=(${join(modules, version)})\n`;
  const folder = folderWith(t, {
    tributary: completionScript('zsh', COMMANDS),
    '.zshenv': `${modulePath}fpath=(${join(root, 'usr/share/zsh/functions')}/**/*(/N))\n`,
    '.zshrc': `
autoload -Uz compinit && compinit -u -D
source $ZDOTDIR/tributary
compadd() {
  if [[ \${@[1,(i)(-|--)]} != *-(O|A|D)\\ * ]]; then
    local -a offered
    builtin compadd -O offered "$@"
    print -rl -- $offered >> $ZDOTDIR/offered
  fi
  builtin compadd "$@"
}
zle-line-init() { BUFFER=$LINE; CURSOR=$#BUFFER; zle list-choices; exit }
zle -N zle-line-init
`,
    outer: `${modulePath}zmodload zsh/zpty
zpty inner ${zsh} -i
while zpty -r inner line; do :; done
`,
  });
  return async (line) => {
    writeFileSync(join(folder, 'offered'), '');
    const env = { ...process.env, ZDOTDIR: folder, LINE: line, TERM: 'dumb' };
    await execute(zsh, ['-f', join(folder, 'outer')], { env, cwd: projectRoot, timeout: 20_000 });
    return linesOf(readFileSync(join(folder, 'offered'), 'utf8'));
  };
}

function fishOffer(t: Test): Offer {
  const fish = peerPath('fish');
  const root = unpackedAt(fish);
  const folder = folderWith(t, { tributary: completionScript('fish', COMMANDS) });
  const env = { ...process.env, HOME: folder, LD_LIBRARY_PATH: librariesIn(root) };
  return async (line) => {
    const script = `
set fish_function_path ${join(root, 'usr/share/fish/functions')}
source ${join(folder, 'tributary')}
complete -C '${line}'`;
    const options = { env, cwd: projectRoot, timeout: 20_000 };
    const { stdout } = await execute(fish, ['--no-config', '-c', script], options);
    return linesOf(stdout).map((offered) => offered.split('\t')[0] ?? '');
  };
}

const FILES = ['package-lock.json', 'package.json'];
const sorted = (offered: readonly string[]): readonly string[] => [...offered].sort();

for (const [shell, offerOf] of [
  ['zsh', zshOffer],
  ['fish', fishOffer],
] as const) {
  t.test(
    `${shell} offers commands, flags, choices and files`,
    { skip: skipWithout(shell) },
    async (t) => {
      const offer = offerOf(t);
      const commands = COMMANDS.map(({ name }) => name).sort();
      t.strictSame(sorted(await offer('tributary ')), commands);
      t.strictSame(await offer('tributary val'), ['validate']);
      t.strictSame(await offer('tributary force --fo'), ['--for']);
      t.strictSame(await offer('tributary diff --t'), ['--to']);
      t.strictSame(await offer('tributary get -o '), ['json', 'yaml']);
      t.strictSame(await offer('tributary bootstrap e'), ['envoy']);
      t.strictSame(sorted(await offer('tributary completion ')), ['bash', 'fish', 'zsh']);
      t.strictSame(await offer('tributary serve --log-l'), ['--log-level']);
      t.strictSame(sorted(await offer('tributary validate packag')), FILES, 'files');
      const flagged = await offer('tributary serve --authority-map packag');
      t.strictSame(sorted(flagged), FILES, 'files of a flag');
      t.strictSame(await offer('tributary get --admin '), [], 'nothing is known of an address');
    },
  );
}
