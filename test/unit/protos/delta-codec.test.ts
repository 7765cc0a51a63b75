import fc from 'fast-check';
import t from 'tap';
import {
  decodeDeltaRequest,
  decodeDeltaResponse,
  encodeDeltaRequest,
  encodeDeltaResponse,
} from '../../../protos/delta-codec.js';
import { sizeOf, wholeOf } from '../../../protos/discovery-fields.js';
import type { Decoded } from '../../../protos/discovery.js';
import { formatParameters } from '../../../protos/dynamic-parameters.js';
import { encodeResourceField } from '../../../protos/resource-field.js';
import { decodeSotwRequest } from '../../../protos/sotw-codec.js';
import {
  decodeRequest,
  encodeConstraints,
  decodeResponse,
  encodeRequest,
  encodeResponse,
  onlyFor,
  type ReceivedLocator,
} from '../../support/discovery-messages.js';

const MANY = 10_000;

function ok<T>(decoded: Decoded<T>): T {
  if (!decoded.ok) throw new Error(decoded.reason);
  return decoded.message;
}

const text = fc.string({ unit: 'grapheme', maxLength: 40 });
const status = fc.record(
  { code: fc.integer({ min: 0, max: 16 }), message: text },
  { noNullPrototype: true },
);
const resource = fc.record(
  {
    name: text,
    version: text,
    body: fc.uint8Array({ maxLength: 300 }),
    typeUrl: text,
    ttl: fc.record({ seconds: fc.nat(), nanos: fc.nat({ max: 999_999_999 }) }),
  },
  { requiredKeys: ['name', 'version'] },
);

t.test('a response encoded by another library is read the same', (t) => {
  const response = fc.record({
    typeUrl: text,
    nonce: text,
    resources: fc.array(resource, { maxLength: 8 }),
    removed: fc.array(text, { maxLength: 5 }),
    errors: fc.array(fc.record({ name: text, code: fc.nat({ max: 16 }), message: text })),
  });
  fc.assert(
    fc.property(response, (sent) => {
      const read = ok(decodeDeltaResponse(encodeResponse(sent), MANY));
      const expected = {
        typeUrl: sent.typeUrl,
        nonce: sent.nonce,
        systemVersion: '',
        resources: sent.resources.map(({ name, version, body, ttl, typeUrl }) => ({
          name,
          version,
          typeUrl: body ? (typeUrl ?? sent.typeUrl) : '',
          body: body && Buffer.from(body),
          ttlMs: ttl && ttl.seconds * 1_000 + Math.trunc(ttl.nanos / 1e6),
        })),
        removed: sent.removed,
        errors: sent.errors.map(({ name, code, message }) => ({ name, status: { code, message } })),
      };
      const got = {
        ...read,
        resources: read.resources.map((one) => ({
          ...one,
          body: one.body && Buffer.from(one.body),
        })),
      };
      return JSON.stringify(sorted(got)) === JSON.stringify(sorted(expected));
    }),
  );
  t.end();
});

/** With sorted keys, so that texts can be compared. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (Buffer.isBuffer(value)) return value.toString('hex');
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, sorted(inner)]),
  );
}

const texts = fc
  .dictionary(text, text, { maxKeys: 5, noNullPrototype: true })
  .filter((pairs) => !('__proto__' in pairs && Object.hasOwn(pairs, '__proto__')));
const locators = fc.array(
  fc.tuple(text, texts).map(([name, all]) => ({
    name,
    parameters: formatParameters(Object.entries(all)),
  })),
  { maxLength: 3 },
);

const request = fc
  .record({ parts: requestParts(), subscribe: locators, unsubscribe: locators })
  .map(({ parts, ...all }) => ({
    ...parts,
    ...(all.subscribe.length + all.unsubscribe.length > 0 && { locators: all }),
  }));

function requestParts() {
  return fc.record({
    node: fc.option(fc.constant(new Uint8Array([0x0a, 1, 0x6e])), { nil: undefined }),
    typeUrl: text,
    subscribe: fc.array(text, { maxLength: 5 }),
    unsubscribe: fc.array(text, { maxLength: 5 }),
    initialVersions: texts.map((versions) => new Map(Object.entries(versions))),
    responseNonce: text,
    errorDetail: fc.option(status, { nil: undefined }),
  });
}

const asSent = ({ name, dynamic_parameters: all }: ReceivedLocator) => ({
  name,
  parameters: formatParameters(Object.entries(all)),
});

t.test('another library reads a request as it was written', (t) => {
  fc.assert(
    fc.property(request, (sent) => {
      const read = decodeRequest(encodeDeltaRequest(sent));
      const expected = {
        typeUrl: sent.typeUrl,
        hasNode: sent.node !== undefined,
        nodeId: sent.node === undefined ? '' : 'n',
        subscribe: sent.subscribe,
        unsubscribe: sent.unsubscribe,
        locators: sent.locators?.subscribe ?? [],
        locatorsLeft: sent.locators?.unsubscribe ?? [],
        initialVersions: Object.fromEntries(sent.initialVersions),
        nonce: sent.responseNonce,
        error: sent.errorDetail && {
          code: sent.errorDetail.code,
          message: sent.errorDetail.message,
        },
      };
      const got = {
        ...read,
        locators: read.locators.map(asSent),
        locatorsLeft: read.locatorsLeft.map(asSent),
        error: read.error && { code: read.error.code, message: read.error.message },
      };
      return JSON.stringify(sorted(got)) === JSON.stringify(sorted(expected));
    }),
  );
  t.end();
});

t.test('a request is read back as it was written', (t) => {
  fc.assert(
    fc.property(request, (sent) => {
      const { node, ...read } = ok(decodeDeltaRequest(encodeDeltaRequest(sent), MANY));
      const { node: sentNode, ...rest } = sent;
      t.strictSame(node && Buffer.from(node), sentNode && Buffer.from(sentNode));
      t.strictSame(read, rest);
    }),
    { numRuns: 50 },
  );
  t.end();
});

t.test('TP2 locators are read and written, and all of them count', (t) => {
  const locator = { name: 'l', dynamic_parameters: { key: 'value', a: '&' } };
  const read = { name: 'l', parameters: 'a=%26&key=value' };
  const bytes = encodeRequest({
    type_url: 'type',
    resource_locators_subscribe: [locator, {}],
    resource_locators_unsubscribe: [locator],
  });
  const request = ok(decodeDeltaRequest(bytes, 3));
  t.strictSame(request.locators, {
    subscribe: [read, { name: '', parameters: '' }],
    unsubscribe: [read],
  });
  t.strictSame(ok(decodeDeltaRequest(encodeDeltaRequest(request), 3)).locators, request.locators);
  t.match(decodeDeltaRequest(bytes, 2), { ok: false, code: 'too_many' });
  const leaving = encodeRequest({ resource_locators_unsubscribe: [locator] });
  t.strictSame(ok(decodeDeltaRequest(leaving, 1)).locators, { subscribe: [], unsubscribe: [read] });
  t.equal(ok(decodeDeltaRequest(encodeRequest({}), 1)).locators, undefined);
  t.end();
});

t.test('a locator has at most 100 parameters (TP2)', (t) => {
  const locatorWith = (count: number) => ({
    name: 'l',
    dynamic_parameters: Object.fromEntries(
      Array.from({ length: count }, (_, at) => [`k${at}`, 'v']),
    ),
  });
  const bytesOf = (count: number) =>
    encodeRequest({ resource_locators_subscribe: [locatorWith(count)] });
  t.match(decodeDeltaRequest(bytesOf(100), 3), { ok: true });
  t.match(decodeDeltaRequest(bytesOf(101), 3), { ok: false, code: 'too_many' });
  t.end();
});

t.test('variants are read and written by name and constraints (TP2)', (t) => {
  const constraints = encodeConstraints(onlyFor('env', 'prod'));
  const { bytes } = encodeResourceField('a', '1', 'type', Buffer.from('A'), constraints);
  const response = wholeOf(
    encodeDeltaResponse({
      typeUrl: 'type',
      nonce: '7',
      resources: [bytes],
      removed: [],
      removedVariants: [{ name: 'b', constraints }],
      errors: [],
    }),
  );
  const constrained = {
    dynamic_parameter_constraints: { constraint: { key: 'env', value: 'prod' } },
  };
  t.match(decodeResponse(response), {
    resources: [{ name: '', version: '1', resource_name: { name: 'a', ...constrained } }],
    removed_resource_names: [{ name: 'b', ...constrained }],
  });
  const decoded = ok(decodeDeltaResponse(response, 2));
  t.match(decoded.resources, [{ name: 'a', constraints: Buffer.from(constraints) }]);
  t.match(decoded.removedVariants, [{ name: 'b', constraints: Buffer.from(constraints) }]);
  t.match(decodeDeltaResponse(response, 1), { ok: false, code: 'too_many' }, 'both count');
  t.end();
});

t.test('a response is spliced from ready pieces, and any library reads it', (t) => {
  const pieces = [
    encodeResourceField('a', '1', 'type', Buffer.from('A')).bytes,
    encodeResourceField('b', '2', 'type', Buffer.from('B')).bytes,
  ];
  const bytes = encodeDeltaResponse({
    typeUrl: 'type',
    nonce: '7',
    resources: pieces,
    removed: ['c'],
    errors: [{ name: 'd', status: { code: 7, message: 'no' } }],
  });
  t.match(decodeResponse(wholeOf(bytes)), {
    type_url: 'type',
    nonce: '7',
    resources: [
      { name: 'a', version: '1', resource: { type_url: 'type', value: Buffer.from('A') } },
      { name: 'b', version: '2' },
    ],
    removed_resources: ['c'],
    resource_errors: [{ resource_name: { name: 'd' }, error_detail: { code: 7, message: 'no' } }],
  });
  const empty = { typeUrl: 't', nonce: '1', resources: [], removed: [], errors: [] };
  t.match(ok(decodeDeltaResponse(wholeOf(encodeDeltaResponse(empty)), 0)), {
    typeUrl: 't',
    nonce: '1',
  });
  t.end();
});

t.test('a large resource is not copied into a response: all responses share its bytes', (t) => {
  const size = fc.oneof(fc.nat(100), fc.integer({ min: 16_300, max: 16_400 }), fc.constant(70_000));
  fc.assert(
    fc.property(fc.array(size), fc.array(fc.string()), (sizes, removed) => {
      const resources = sizes.map(
        (length, at) => encodeResourceField(`r${at}`, '1', 'type', Buffer.alloc(length, at)).bytes,
      );
      const parts = { typeUrl: 'type', nonce: '7', removed, errors: [] };
      const chunks = encodeDeltaResponse({ ...parts, resources });
      const [head = Buffer.alloc(0)] = encodeDeltaResponse({
        ...parts,
        removed: [],
        resources: [],
      });
      const tail = wholeOf(encodeDeltaResponse({ ...parts, resources: [] })).subarray(head.length);
      t.ok(wholeOf(chunks).equals(Buffer.concat([head, ...resources, tail])));
      t.equal(sizeOf(chunks), wholeOf(chunks).length);
      t.ok(chunks.every(({ length }) => length > 0));
      const large = resources.filter(({ length }) => length >= 16_384);
      t.strictSame(
        large.map((one) => chunks.some((chunk) => chunk === one)),
        large.map(() => true),
      );
      t.ok(chunks.length <= 2 * large.length + 1, 'the smaller ones are copied together');
    }),
    { numRuns: 200 },
  );
  t.end();
});

t.test('arbitrary bytes never throw', (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => {
      decodeDeltaRequest(bytes, MANY);
      decodeDeltaResponse(bytes, MANY);
    }),
    { numRuns: 2_000 },
  );
  t.end();
});

const RICH_RESPONSE = encodeResponse({
  typeUrl: 'type',
  nonce: 'nonce',
  resources: [
    { name: 'one', version: '1', body: Buffer.from('body'), ttl: { seconds: 3, nanos: 5_000_000 } },
    { name: 'two', version: '2' },
  ],
  removed: ['three'],
  errors: [{ name: 'four', code: 5, message: 'gone' }],
});
const RICH_REQUEST = encodeDeltaRequest({
  node: new Uint8Array([0x0a, 1, 0x6e]),
  typeUrl: 'type',
  subscribe: ['a'],
  unsubscribe: ['b'],
  initialVersions: new Map([['c', '1']]),
  responseNonce: 'n',
  errorDetail: { code: 3, message: 'm' },
});

t.test('of the text of a status, 4,096 characters are kept', (t) => {
  const messageOf = (message: string): string | undefined => {
    const request = decodeDeltaRequest(
      encodeDeltaRequest({
        node: undefined,
        typeUrl: 'type',
        subscribe: [],
        unsubscribe: [],
        initialVersions: new Map(),
        responseNonce: 'n',
        errorDetail: { code: 3, message },
      }),
      MANY,
    );
    return request.ok ? request.message.errorDetail?.message : undefined;
  };
  t.equal(messageOf('x'.repeat(4_096)), 'x'.repeat(4_096));
  t.equal(messageOf('x'.repeat(4_097)), `${'x'.repeat(4_096)}…`);
  t.equal(messageOf('x'.repeat(900_000))?.length, 4_097);
  t.end();
});

t.test('a message with one byte changed, or cut short, never throws', (t) => {
  for (const [message, decode] of [
    [RICH_RESPONSE, decodeDeltaResponse],
    [RICH_REQUEST, decodeDeltaRequest],
  ] as const) {
    for (let at = 0; at < message.length; at++) {
      decode(message.subarray(0, at), MANY);
      for (let bit = 0; bit < 8; bit++) {
        const hurt = Buffer.from(message);
        hurt[at] = (hurt[at] ?? 0) ^ (1 << bit);
        decode(hurt, MANY);
      }
    }
  }
  t.end();
});

const bytesField = (tag: number, content: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from([tag, content.length]), content]);

t.test('a field longer than its enclosing message makes the whole malformed', (t) => {
  // Each inner message ends in a string that claims 9 bytes and has none.
  const liar = Buffer.from([0x0a, 9]);
  const filler = bytesField(0x22, Buffer.from('a type long enough'));
  const cases: Record<string, Buffer> = {
    Resource: bytesField(0x12, liar),
    Any: bytesField(0x12, bytesField(0x12, liar)),
    Duration: bytesField(0x12, bytesField(0x32, liar)),
    ResourceError: bytesField(0x4a, Buffer.from([0x1a, 9])),
    'ResourceError.resource_name': bytesField(0x4a, bytesField(0x0a, liar)),
    'ResourceError.error_detail': bytesField(0x4a, bytesField(0x12, Buffer.from([0x12, 9]))),
  };
  for (const [title, bytes] of Object.entries(cases)) {
    const decoded = decodeDeltaResponse(Buffer.concat([bytes, filler]), MANY);
    t.match(decoded, { ok: false, code: 'malformed' }, title);
  }
  const entry = Buffer.concat([bytesField(0x2a, liar), filler]);
  t.match(decodeDeltaRequest(entry, MANY), { ok: false, code: 'malformed' }, 'a map entry');
  const beyond = decodeDeltaRequest(Buffer.from([0x2a, 50, 0x0a]), MANY);
  t.match(beyond, { ok: false, code: 'malformed' }, 'a message longer than its parent');
  t.end();
});

t.test('unknown fields are skipped, on every level', (t) => {
  const unknown = Buffer.from([0xf8, 0x07, 1]);
  const inner = (tag: number, ...parts: Buffer[]): Buffer =>
    bytesField(tag, Buffer.concat([unknown, ...parts]));
  const any = inner(0x12, bytesField(0x0a, Buffer.from('t')));
  const duration = inner(0x32, Buffer.from([0x08, 2, 0x10, 0]));
  const error = inner(0x4a, inner(0x0a, bytesField(0x0a, Buffer.from('n'))), inner(0x12));
  const bytes = Buffer.concat([
    unknown,
    bytesField(0x0a, Buffer.from('system')),
    inner(0x12, any, duration),
    error,
  ]);
  t.match(ok(decodeDeltaResponse(bytes, MANY)), {
    systemVersion: 'system',
    resources: [{ typeUrl: 't', body: Buffer.alloc(0), ttlMs: 2_000 }],
    errors: [{ name: 'n', status: { code: 0, message: '' } }],
  });
  const requestBytes = Buffer.concat([unknown, inner(0x2a, bytesField(0x0a, Buffer.from('k')))]);
  t.strictSame(ok(decodeDeltaRequest(requestBytes, MANY)).initialVersions, new Map([['k', '']]));
  t.end();
});

t.test(
  'a TTL of centuries is accepted, and a negative one has ended (xDS protocol, "TTL")',
  (t) => {
    for (const seconds of [2 ** 31, 2 ** 32, 315_576_000_000, -1]) {
      const bytes = encodeResponse({
        typeUrl: 'type',
        nonce: 'nonce',
        resources: [{ name: 'n', version: '1', ttl: { seconds, nanos: 0 } }],
      });
      const [resource] = ok(decodeDeltaResponse(bytes, MANY)).resources;
      t.equal(resource?.ttlMs, seconds * 1_000);
    }
    t.end();
  },
);

t.test('4 MiB of empty resources are refused by their count, before any is built', (t) => {
  const flood = Buffer.alloc(4 * 1024 * 1024);
  for (let at = 0; at < flood.length; at += 2) flood[at] = 0x12;
  const before = process.memoryUsage().heapUsed;
  t.match(decodeDeltaResponse(flood, MANY), { ok: false, code: 'too_many' });
  const grownBytes = process.memoryUsage().heapUsed - before;
  t.ok(grownBytes < 8 * 1024 * 1024, `the heap grew by ${grownBytes} bytes`);
  t.end();
});

t.test('the bound of a response counts all its lists together, and is exact', (t) => {
  const bytes = encodeResponse({
    typeUrl: 't',
    nonce: '1',
    resources: [{ name: 'a', version: '1' }],
    removed: ['b'],
    errors: [{ name: 'c', code: 5 }],
  });
  t.ok(decodeDeltaResponse(bytes, 3).ok);
  t.match(decodeDeltaResponse(bytes, 2), { ok: false, code: 'too_many' });
  t.end();
});

t.test('the bound of a request counts all its lists together, and is exact', (t) => {
  const bytes = encodeRequest({
    resource_names_subscribe: ['a'],
    resource_names_unsubscribe: ['b'],
    initial_resource_versions: { c: '1', d: '2', e: '3' },
  });
  t.match(decodeDeltaRequest(bytes, 3), { ok: true, message: { versionsLeftOut: undefined } });
  t.match(decodeDeltaRequest(bytes, 1), { ok: false, code: 'too_many' });
  t.end();
});

t.test('versions are bounded apart from names, and those beyond the bound are left out', (t) => {
  const bytes = encodeRequest({
    resource_names_subscribe: ['a', 'b'],
    initial_resource_versions: { a: '1', b: '2', c: '3' },
  });
  const decoded = decodeDeltaRequest(bytes, 2);
  t.match(decoded, { ok: true, message: { versionsLeftOut: 1 } });
  t.equal(decoded.ok && decoded.message.initialVersions.size, 2);
  t.end();
});

const REQUEST_OF_TEXTS = {
  node: undefined,
  typeUrl: 'T',
  subscribe: ['xdstp://a/T/x'],
  unsubscribe: [],
  initialVersions: new Map<string, string>(),
  responseNonce: '',
  errorDetail: undefined,
};

t.test('a text longer than its message is refused: a cut message is malformed', (t) => {
  // Found by fuzzing: protobufjs reads such a text as one that ends with the message.
  const request = Buffer.from(encodeDeltaRequest(REQUEST_OF_TEXTS));
  for (const bytes of [request.subarray(0, -1), new Uint8Array(request.subarray(0, -3))]) {
    t.match(decodeDeltaRequest(bytes, 10), { ok: false, code: 'malformed' });
  }
  const cut = Buffer.from('120f74797065', 'hex');
  t.match(decodeDeltaRequest(cut, 10), { ok: false, code: 'malformed' });
  t.match(decodeSotwRequest(Buffer.from('220f74797065', 'hex'), 10), { ok: false });
  t.match(decodeDeltaResponse(Buffer.from('2a0f31', 'hex'), 10), { ok: false });
  t.end();
});

t.test('invalid UTF-8 reads the same from a Buffer and from other bytes', (t) => {
  // U+D800 in CESU-8: a lone surrogate, which no encoder can write.
  const bytes = Buffer.from('120461eda080', 'hex');
  const read = decodeDeltaRequest(bytes, 10);
  t.match(read, { ok: true, message: { typeUrl: 'a\ufffd\ufffd\ufffd' } });
  t.strictSame(decodeDeltaRequest(new Uint8Array(bytes), 10), read);
  t.end();
});

t.test(
  'a message with far more fields than its entries need is refused before it costs time',
  (t) => {
    const emptyNonces = (count: number): Buffer =>
      Buffer.alloc(count * 2, Buffer.from('2a00', 'hex'));
    t.ok(decodeDeltaResponse(emptyNonces(1_000), MANY).ok, 'protobuf allows repetitions');
    t.match(decodeDeltaResponse(emptyNonces(1_001), MANY), { ok: false, code: 'too_many' });
    const inside = (count: number): Uint8Array => {
      const names = Buffer.alloc(count * 2, Buffer.from('1a00', 'hex'));
      const head = [0x12, (names.length & 0x7f) | 0x80, names.length >>> 7];
      return Buffer.concat([Buffer.from(head), names]);
    };
    t.ok(decodeDeltaResponse(inside(1_000), MANY).ok);
    t.match(decodeDeltaResponse(inside(1_100), MANY), { ok: false, code: 'too_many' }, 'nested');
    const request = Buffer.alloc(2 * 1_100, Buffer.from('3200', 'hex'));
    t.match(decodeDeltaRequest(request, 1), { ok: false, code: 'too_many' }, 'of a client');
    t.end();
  },
);
