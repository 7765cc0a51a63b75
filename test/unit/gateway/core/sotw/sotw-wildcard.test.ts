/**
 * Goal: `*`, the empty first request and old-style names follow the xDS protocol for
 * state-of-the-world clients (GRPC 3), in the scope of their node group.
 * Method: a session with a given scope; manual requests and responses.
 */
import t from 'tap';
import type { ClientScope } from '../../../../../gateway/core/session/asked-name.js';
import { SotwSession } from '../../../../../gateway/core/sotw/sotw-session.js';
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import { STATUS_CODE, type RpcStatus } from '../../../../../protos/discovery.js';
import { decodeSotwResponse } from '../../../../support/discovery-messages.js';
import { CDS, cds, EDS } from '../../../../support/mesh-names.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import { Instance } from '../../../../support/session-driver.js';

const SCOPE = '{"id":"a"}';
const key = (text: string, scope = SCOPE): string => `\n${scope}\n${text}`;

class Stream {
  readonly instance = new Instance();
  readonly session: SotwSession;
  #nonce = '';
  #version = '';

  constructor(scope: ClientScope = { kind: 'scope', scope: SCOPE }) {
    const { cache, settings } = this.instance;
    this.session = new SotwSession({
      ...settings,
      scopeOf: () => scope,
      placeholderAfterMs: undefined,
      unanswerableAfterMs: undefined,
      cache,
      onReady: () => undefined,
    });
  }

  ask(typeUrl: string, ...names: readonly string[]): RpcStatus | undefined {
    const sent = { typeUrl, names, versionInfo: this.#version, responseNonce: this.#nonce };
    const request = { ...sent, node: undefined, errorDetail: undefined };
    const refusal = this.session.handleRequest(request, this.instance.nowMs);
    this.instance.directory.answer();
    return refusal;
  }

  /** The bodies of the next response, if any. */
  poll(): readonly string[] | undefined {
    const response = this.session.takeResponse(this.instance.nowMs);
    if (!response) return undefined;
    const { nonce, versionInfo, resources } = decodeSotwResponse(wholeOf(response.chunks));
    this.#nonce = nonce;
    this.#version = versionInfo;
    return resources.map(({ body }) => body.toString()).sort();
  }

  put(typeUrl: string, text: string, content: string): void {
    this.instance.directory.put(typeUrl, text, content);
  }
}

t.test('an empty first list is the wildcard of the client’s node group, and so is `*`', (t) => {
  for (const names of [[], ['*']]) {
    const stream = new Stream();
    stream.put(CDS, key('x'), 'mine');
    stream.put(CDS, key('y', '{"id":"b"}'), 'of another node');
    stream.ask(CDS, ...names);
    t.strictSame(stream.poll(), ['mine']);
    stream.put(CDS, key('z'), 'new');
    stream.ask(CDS, ...names);
    t.strictSame(stream.poll(), ['mine', 'new'], 'a response contains all of them');
  }
  t.end();
});

t.test(
  'an empty list means nothing once names were sent: [], [*, A], [A], [] (xDS protocol)',
  (t) => {
    const stream = new Stream();
    stream.put(CDS, key('x'), 'x');
    stream.put(CDS, cds('edge/a'), 'a');
    stream.ask(CDS);
    t.strictSame(stream.poll(), ['x']);
    stream.ask(CDS, '*', cds('edge/a'));
    t.strictSame(stream.poll(), ['a', 'x']);
    stream.ask(CDS, cds('edge/a'));
    t.strictSame(stream.poll(), ['a']);
    stream.ask(CDS);
    t.strictSame(stream.poll(), []);
    t.equal(stream.session.nameCount, 0);
    t.end();
  },
);

t.test('plain names of other types are in the same scope', (t) => {
  const stream = new Stream();
  stream.put(EDS, key('shop'), 'endpoints');
  stream.ask(EDS, 'shop');
  t.strictSame(stream.poll(), ['endpoints']);
  t.end();
});

t.test('a client whose node group cannot be served has its stream ended', (t) => {
  const status = { code: STATUS_CODE.resourceExhausted, message: 'too many node groups' };
  const stream = new Stream({ kind: 'refused', status });
  t.strictSame(stream.ask(CDS), status);
  t.equal(
    new Stream({ kind: 'not_served' }).ask(CDS),
    undefined,
    'without old-style names in the map only the name is refused',
  );
  t.end();
});

const SRDS = TYPE_URL.scopedRouteConfiguration;
const UNKNOWN = 'type.googleapis.com/acme.v1.Quota';

t.test(
  'each response of scoped routes, and of a collection of an unknown type, has the whole set, since the client may ' +
    'replace all it has (ENVOY 22, 23; invariant 19)',
  (t) => {
    for (const typeUrl of [SRDS, UNKNOWN]) {
      const stream = new Stream();
      const { directory } = stream.instance;
      for (const name of ['a', 'b']) stream.put(typeUrl, key(name), `${name}1`);
      stream.ask(typeUrl);
      t.strictSame(stream.poll(), ['a1', 'b1'], typeUrl);
      stream.ask(typeUrl);
      stream.put(typeUrl, key('b'), 'b2');
      t.strictSame(stream.poll(), ['a1', 'b2'], 'a change');
      stream.ask(typeUrl);
      directory.remove(typeUrl, key('a'));
      stream.instance.nowMs += 60_000;
      t.strictSame(stream.poll(), ['b2'], 'a removal');
      stream.ask(typeUrl);
      t.equal(stream.poll(), undefined);
    }
    t.end();
  },
);

t.test(
  'single names of an unknown type, and types that are requested by name, get what changed',
  (t) => {
    for (const [typeUrl, names] of [
      [UNKNOWN, ['a', 'b']],
      [EDS, []],
    ] as const) {
      const stream = new Stream();
      for (const name of ['a', 'b']) stream.put(typeUrl, key(name), `${name}1`);
      stream.ask(typeUrl, ...names);
      t.strictSame(stream.poll(), ['a1', 'b1'], typeUrl);
      stream.ask(typeUrl, ...names);
      stream.put(typeUrl, key('b'), 'b2');
      t.strictSame(stream.poll(), ['b2']);
    }
    t.end();
  },
);
