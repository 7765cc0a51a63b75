/**
 * Goal: `tributary demo` sends its requests through Envoy, and none fails.
 * Method: the built program with a real Envoy on PATH, and shorter times.
 */
import { delimiter, dirname } from 'node:path';
import t from 'tap';
import { showsRound, startDemo } from '../support/demo.js';
import { peerPath, skipWithout } from './peers/provisioned.js';

t.setTimeout(90_000);

t.test(
  'README: the demo sends its requests through the Envoy on PATH',
  { skip: skipWithout('envoy') },
  async (t) => {
    const path = ['/nowhere', dirname(peerPath('envoy'))].join(delimiter);
    t.match(await showsRound(t, startDemo(t, ['--rounds', '1'], path)), 'Envoy (');
  },
);
