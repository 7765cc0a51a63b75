/**
 * Goal: `tributary demo` sends its requests through Envoy, and none fails.
 * Method: the built program with a real Envoy on PATH, and shorter times.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { delimiter, dirname } from 'node:path';
import t from 'tap';
import { showsRound, startDemo } from '../support/demo.js';
import { peerPath, skipWithout } from './peers/provisioned.js';

t.setTimeout(90_000);

/** The process group: the third field after the name, proc(5). */
const groupOf = (pid: number | string): string | undefined =>
  readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[2];

t.test(
  'README: the demo sends its requests through the Envoy on PATH',
  { skip: skipWithout('envoy') },
  async (t) => {
    const path = ['/nowhere', dirname(peerPath('envoy'))].join(delimiter);
    t.match(await showsRound(t, startDemo(t, ['--rounds', '1'], path)), 'Envoy (');
  },
);

t.test(
  'a Ctrl-C at the terminal, which all processes of the demo get, ends it without failed requests',
  { skip: skipWithout('envoy') },
  async (t) => {
    const { child, lines } = startDemo(t, [], dirname(peerPath('envoy')));
    const exit = once(child, 'exit');
    let last = '';
    for await (const line of lines) {
      last = line;
      if (!/[1-9]\d* requests, 0 failed/.test(line) || line.includes('end:')) continue;
      const pid = child.pid ?? 0;
      const [envoy = ''] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ');
      // Else Envoy could end before the traffic.
      t.notSame(groupOf(envoy), groupOf(pid), 'the terminal sends Envoy no signal');
      process.kill(-pid, 'SIGINT');
    }
    t.match(last, / end: \d kills, [1-9]\d* requests, 0 failed$/);
    t.same(await exit, [0, null]);
  },
);
