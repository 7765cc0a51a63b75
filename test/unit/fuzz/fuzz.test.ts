/** The fuzzer itself: it finds failures, shrinks them, and can replay them (docs/FUZZING.md). */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { replay, runCase, stepsOf } from '../../fuzz/cases.js';
import { explore } from '../../fuzz/explore.js';
import type { Prepared, Target } from '../../fuzz/target.js';
import { PLANTED } from '../../fuzz/planted.js';
import { targetOf, TARGETS } from '../../fuzz/targets.js';
import { fieldBytes, spansOf, splice } from '../../fuzz/wire.js';
import { mutateWire } from '../../fuzz/wire-mutator.js';
import { root } from '../../support/program.js';

const counts = () => ({ mutated: 0, accepted: 0 });

t.test('the same seed makes the same messages, and others make others', (t) => {
  for (const name of ['delta-request', 'state-file']) {
    const target = targetOf(name);
    const prepared = target.prepare() as Prepared;
    const of = (seed: number): string =>
      [...stepsOf(target, prepared, prepared.seeds, seed)]
        .map((step) => step.message.join())
        .join();
    t.equal(of(17), of(17));
    t.not(of(17), of(18));
  }
  t.end();
});

t.test('a message that breaks a rule is found, and reported without irrelevant messages', (t) => {
  const seeds = [Uint8Array.of(0x0a, 1, 0x61), fieldBytes(3, Uint8Array.of(0x62))];
  const target: Target = {
    name: 'planted',
    messages: 1,
    perCase: 50,
    valid: 0.2,
    cost: 1,
    prepare: () => prepared,
  };
  const prepared: Prepared = {
    seeds,
    mutate: (random, known) => mutateWire(random, { seeds: known, words: seeds }, 0.5),
    open: () => ({
      take: (message) => {
        if (message.length === 5) throw new Error('five bytes');
        return true;
      },
    }),
  };
  const failure = runCase(target, prepared, seeds, 1, counts());
  t.match(failure, { target: 'planted', seed: 1, error: /five bytes/ });
  t.equal(failure?.steps.length, 1);
  const steps = (failure?.steps ?? []).map(([message, dice]) => ({
    message: Buffer.from(message, 'base64'),
    dice,
    isMutated: true,
  }));
  t.match(replay(prepared, steps), { message: 'five bytes' });
  t.end();
});

t.test('messages that reach new code are kept, the same ones each time', (t) => {
  const target = targetOf('locator');
  const prepared = target.prepare() as Prepared;
  const found = explore(target, prepared);
  t.ok(found.length > 0, `${found.length} were kept`);
  t.ok(found.length < 400, 'and not all');
  t.end();
});

t.test('a million messages for each type, except where a library is the cost', (t) => {
  const fewer = TARGETS.filter(({ messages }) => messages < 1_000_000).map(({ name }) => name);
  t.strictSame(fewer.sort(), ['authority-map', 'dump', 'rest-request']);
  t.end();
});

t.test('each planted bug changes code that exists', (t) => {
  for (const { title, file, from, target } of PLANTED) {
    const text = readFileSync(`${root}${file}`, 'utf8');
    t.equal(text.split(from).length, 2, title);
    if (target !== 'linear') t.ok(targetOf(target));
  }
  t.end();
});

// Hypothesis: inserting into a nested value keeps all lengths around it right.
t.test('a message that was cut and spliced has right lengths', (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(), (insert, which) => {
      const inner = fieldBytes(2, fieldBytes(3, fieldBytes(1, Uint8Array.of(0x61, 0x62, 0x63))));
      const spans = spansOf(inner);
      const span = spans[which % spans.length]!;
      const field = fieldBytes(9, insert);
      const out = splice(inner, spans, span.parent, span.start, span.end, field);
      t.ok(
        spansOf(out).some((one) => one.number === 9 && one.end - one.valueStart === insert.length),
      );
    }),
  );
  t.end();
});
