/**
 * Goal: the README's five-minute tour is true.
 * Method: its commands, taken from the README itself, against the quickstart example served by the
 * built program, on free ports instead of the default ones. Every line that the README shows is compared.
 */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { runCommand, root, serveExample } from '../support/program.js';
import { stepsOf, shows } from '../support/tour.js';

const steps = stepsOf(readFileSync(`${root}README.md`, 'utf8'), 'tour');

t.test('README: every command of the tour prints what the tour shows', async (t) => {
  t.equal(steps.length, 6, 'the tour is found in the README');
  t.match(steps[0]?.shown.join('\n'), /source: cloud/, 'the first command shows something served');
  const { admin, stop } = await serveExample('examples/quickstart/authority-map.yaml');
  t.teardown(stop);
  for (const { command, shown } of steps) {
    const words = command.split(' ');
    t.same(words.slice(0, 2), ['npx', 'tributary']);
    const asks = words[2] !== 'validate';
    const { code, stdout, stderr } = await runCommand([
      ...words.slice(2),
      ...(asks ? ['--admin', admin] : []),
    ]);
    t.equal(code, 0, `${command}\n${stdout}${stderr}`);
    t.ok(shown.length > 0, `the tour shows an output of: ${command}`);
    t.ok(shows(stdout, shown), `${command}\nprinted\n${stdout}`);
  }
});

t.test('the comparison of the tour finds a wrong, a missing and an added line', (t) => {
  const printed = 'a: 1\nb: 2\nat 2026-11-23T03:24:19.839Z\n';
  const time = 'at 2000-01-01T00:00:00.000Z';
  t.ok(shows(printed, ['a: 1', 'b: 2', time]), 'times may differ');
  t.ok(shows(printed, ['…', 'b: 2', '…']));
  t.notOk(shows(printed, ['a: 1', 'b: 3', time]));
  t.notOk(shows(printed, ['…', 'b: 2']), 'a line after the last one shown');
  t.notOk(shows(printed, ['b: 2', time]), 'a line before the first one shown');
  t.notOk(shows(printed, ['…', 'c: 3', '…']));
  t.end();
});
