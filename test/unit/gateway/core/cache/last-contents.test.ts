/** Goal: the content of a removed cluster is kept for a minute, and not more than 10,000 of them, or 16 MiB. */
import t from 'tap';
import { LastContents } from '../../../../../gateway/core/cache/last-contents.js';
import { projectionOf } from '../../../../support/fake-directory.js';
import { CDS, cds } from '../../../../support/mesh-names.js';

const a = projectionOf(CDS, cds('a'), 'v1');
const b = projectionOf(CDS, cds('b'), 'v1');

t.test('a content is forgotten after a minute', (t) => {
  const lasts = new LastContents();
  t.equal(lasts.nextMs, undefined);
  const [first, second] = [lasts.keep(a, 0), lasts.keep(b, 1)];
  t.equal(lasts.nextMs, 60_000);
  lasts.forgetDue(59_999);
  t.strictSame([first.content, second.content], [a, b]);
  lasts.forgetDue(60_000);
  t.strictSame([first.content, second.content], [undefined, b]);
  lasts.forgetDue(60_001);
  t.strictSame([second.content, lasts.nextMs], [undefined, undefined]);
  t.end();
});

t.test('of more than 10,000 the oldest are forgotten', (t) => {
  const lasts = new LastContents();
  const all = Array.from({ length: 10_001 }, () => lasts.keep(a, 0));
  t.equal(all[0]?.content, undefined);
  t.equal(all[1]?.content, a);
  t.end();
});

t.test('nor do they take more than 16 MiB', (t) => {
  const lasts = new LastContents();
  const large = projectionOf(CDS, cds('large'), 'v'.repeat(6 * 1_024 * 1_024));
  const all = Array.from({ length: 3 }, () => lasts.keep(large, 0));
  t.strictSame(
    all.map(({ content }) => content !== undefined),
    [false, true, true],
  );
  const huge = projectionOf(CDS, cds('huge'), 'v'.repeat(17 * 1_024 * 1_024));
  t.ok(lasts.keep(huge, 0).content === undefined);
  t.equal(lasts.nextMs, undefined, 'none is left');
  t.equal(lasts.keep(a, 0).content, a, 'there is room again');
  t.end();
});
