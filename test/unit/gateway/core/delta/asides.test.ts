/**
 * Goal: the responses that belong to no subscriptions keep the pace of their type, and none comes to a type whose
 * wildcard is open.
 */
import t from 'tap';
import { Asides } from '../../../../../gateway/core/delta/asides.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { CDS, EDS } from '../../../../support/mesh-names.js';

const invalid = { code: STATUS_CODE.invalidArgument, message: 'not a name' };
const MANY = 1e6;

/** @param open the types whose wildcard is open */
const setUp = (...open: string[]): Asides =>
  new Asides({ awaitsWildcard: (typeUrl) => open.includes(typeUrl) });

t.test('errors wait for the ACK of those before, or for a second; other types do not', (t) => {
  const asides = setUp();
  const refuse = (typeUrl: string): void => {
    asides.refuse(typeUrl, '?', invalid);
  };
  refuse(CDS);
  t.equal(asides.refusedCount, 1);
  const first = asides.takeErrors(MANY, 0);
  t.match(first, { aside: { typeUrl: CDS, goesOn: false }, untilMs: undefined });
  t.notOk(asides.hasErrors);
  asides.handleSent(first.aside!, '1', 0);
  refuse(CDS);
  t.strictSame(asides.takeErrors(MANY, 10), { aside: undefined, untilMs: 1_000 });
  refuse(EDS);
  t.match(asides.takeErrors(MANY, 10), { aside: { typeUrl: EDS }, untilMs: 1_000 });
  t.equal(asides.handleAcknowledged(EDS, '1'), undefined, 'another type');
  t.equal(asides.handleAcknowledged(CDS, '1'), 0);
  t.match(asides.takeErrors(MANY, 10), { aside: { typeUrl: CDS } });
  t.end();
});

t.test('further chunks of the same errors do not wait', (t) => {
  const asides = setUp();
  for (const text of ['?a', '?b']) asides.refuse(CDS, text, invalid);
  const { aside } = asides.takeErrors(1, 0);
  asides.handleSent(aside!, '1', 0);
  t.match(asides.takeErrors(1, 0), { aside: { typeUrl: CDS, goesOn: true } });
  t.end();
});

t.test('the empty first response is of a type without an open wildcard (ENVOY 13)', (t) => {
  const asides = setUp(CDS);
  t.equal(asides.greeting, undefined);
  asides.noteUnanswered(CDS);
  t.equal(asides.greeting, undefined);
  asides.noteUnanswered(EDS);
  t.match(asides.greeting, { typeUrl: EDS, content: { resourceCount: 0 }, goesOn: false });
  asides.noteAnswered();
  t.equal(asides.greeting, undefined);
  asides.refuse(CDS, '?', invalid);
  t.strictSame(asides.takeErrors(MANY, 0), { aside: undefined, untilMs: undefined });
  t.end();
});
