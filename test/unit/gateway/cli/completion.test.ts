/**
 * Goal: shells complete every command, flag and choice.
 * Method: the script for bash runs in bash; those for zsh and fish are checked by their text, and
 * test/interop/completion.test.ts runs them.
 */
import { execFileSync } from 'node:child_process';
import t from 'tap';
import { completionScript } from '../../../../gateway/cli/completion.js';
import { COMMANDS, run } from '../../../../gateway/cli/run.js';

/** The words that bash offers for the last of `words`. */
function offered(...words: readonly string[]): readonly string[] {
  const script = completionScript('bash', COMMANDS);
  const line = words.map((word) => `'${word}'`).join(' ');
  const ask = `COMP_WORDS=(tributary ${line}); COMP_CWORD=${words.length}; _tributary; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const out = execFileSync('bash', ['--norc', '-c', `${script}\n${ask}`], { encoding: 'utf8' });
  return out.split('\n').filter((word) => word !== '');
}

t.test('bash offers commands, flags, choices and files', (t) => {
  t.strictSame(
    offered(''),
    COMMANDS.map(({ name }) => name),
  );
  t.strictSame(offered('val'), ['validate']);
  t.strictSame(offered('force', '--fo'), ['--for']);
  t.strictSame(offered('get', '-o', ''), ['json', 'yaml']);
  t.strictSame(offered('bootstrap', 'e'), ['envoy']);
  t.strictSame(offered('completion', ''), ['bash', 'zsh', 'fish']);
  t.strictSame(offered('serve', '--log-l'), ['--log-level']);
  t.ok(offered('validate', 'packag').includes('package.json'), 'files');
  t.ok(offered('serve', '--authority-map', 'packag').includes('package.json'), 'files of a flag');
  t.strictSame(offered('get', '--admin', ''), [], 'nothing is known of an address');
  t.end();
});

for (const shell of ['zsh', 'fish'] as const) {
  t.test(`the script for ${shell} has every command, flag and choice`, async (t) => {
    const said: string[] = [];
    const out = (text: string): void => void said.push(text);
    t.equal(await run(['completion', shell], { env: {}, out, err: out }), 0);
    const script = said.join('');
    for (const { name, flags } of COMMANDS) {
      t.ok(script.includes(name), name);
      for (const flag of flags) {
        t.ok(script.includes(shell === 'zsh' ? `--${flag.name}[` : ` -l ${flag.name} `), flag.name);
        if (flag.choices) t.ok(script.includes(flag.choices.join(' ')), `choices of ${flag.name}`);
      }
    }
    const quotes = script.split('\n').filter((line) => !line.startsWith('#'));
    for (const line of quotes) {
      const plain = line.replaceAll("'\\''", '').replaceAll("\\'", '');
      t.equal((plain.match(/'/g)?.length ?? 0) % 2, 0, `quotes are closed: ${line}`);
    }
  });
}
