/** Goal: a method of one type takes requests of this type alone, and a refusal repeats little of what a client wrote. */
import t from 'tap';
import {
  statusOfUnreadable,
  typedRequest,
} from '../../../../../gateway/core/session/request-checks.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { CDS, EDS } from '../../../../support/mesh-names.js';
import { request } from '../../../../support/model-client.js';

t.test('a request of an ADS stream keeps its type, also an empty one', (t) => {
  for (const typeUrl of [CDS, '']) {
    const written = request({ typeUrl });
    t.strictSame(typedRequest(written, undefined), { ok: true, request: written });
  }
  t.end();
});

t.test(
  'a request of a per-type method gets the type of the method, and may name it (xDS protocol, "The xDS API flow")',
  (t) => {
    const named = request({ typeUrl: CDS, subscribe: ['c'] });
    t.strictSame(typedRequest(named, CDS), { ok: true, request: named });
    const unnamed = request({ typeUrl: '', subscribe: ['c'] });
    t.strictSame(typedRequest(unnamed, CDS), { ok: true, request: named });
    t.equal(unnamed.typeUrl, '', 'the request of the caller is as it was');
    t.end();
  },
);

t.test('another type than that of the method is INVALID_ARGUMENT, and long text is cut', (t) => {
  const refused = (typeUrl: string): unknown => typedRequest(request({ typeUrl }), CDS);
  const status = (message: string): unknown => ({
    ok: false,
    status: { code: STATUS_CODE.invalidArgument, message },
  });
  t.strictSame(refused(EDS), status(`this method serves ${CDS}, not ${EDS}`));
  t.strictSame(
    refused('x'.repeat(100_000)),
    status(`this method serves ${CDS}, not ${'x'.repeat(200)}`),
  );
  t.end();
});

t.test('a client learns why its request is refused only if it asked for too much', (t) => {
  t.strictSame(
    statusOfUnreadable('request', { ok: false, code: 'too_many', reason: 'more than 2 names' }),
    { code: STATUS_CODE.resourceExhausted, message: 'more than 2 names' },
  );
  t.strictSame(
    statusOfUnreadable('load report', { ok: false, code: 'malformed', reason: 'field 7 is cut' }),
    { code: STATUS_CODE.invalidArgument, message: 'the load report cannot be read' },
  );
  t.end();
});
