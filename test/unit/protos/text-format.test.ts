/**
 * Goal: protobuf text format is read as its specification says
 * (protobuf.dev/reference/protobuf/textformat-spec), and a mistake is reported at its place.
 * Method: messages of the Envoy API, compared with their JSON.
 */
import t from 'tap';
import { resourceFromJson, redactedJson } from '../../../protos/json-resources.js';
import { parseTextFormat } from '../../../protos/text-format.js';

const PREFIX = 'type.googleapis.com/';
const CLUSTER = 'envoy.config.cluster.v3.Cluster';
const NODE = 'envoy.config.core.v3.Node';

/** Its JSON, or the mistake as `line:column: message`. */
function read(text: string, typeName = CLUSTER): unknown {
  const result = parseTextFormat(text, typeName);
  if (!result.ok) return `${result.line}:${result.column}: ${result.message}`;
  const json = { ...redactedJson(PREFIX + typeName, result.bytes) };
  delete json['@type'];
  return json;
}

t.test('every spelling of a field reads the same', (t) => {
  const a = { name: 'a', connect_timeout: '5s' };
  for (const text of [
    'name: "a" connect_timeout { seconds: 5 }',
    "name:'a',connect_timeout:{seconds:5,}",
    'name: "a"; connect_timeout: < seconds: 0x5; >',
    '# a comment\nname: # another\n  "a"\nconnect_timeout {\n  seconds: 05\n}\n',
  ]) {
    t.strictSame(read(text), a, text);
  }
  t.strictSame(read(''), {});
  t.end();
});

t.test('lists, maps, enums and booleans', (t) => {
  t.strictSame(
    read('type: STRICT_DNS lb_policy: 2 ignore_health_on_host_removal: t'),
    { type: 'STRICT_DNS', lb_policy: 'RING_HASH', ignore_health_on_host_removal: true },
    'an enum is a name or a number',
  );
  t.strictSame(read('client_features: "a" client_features: ["b", "c"] client_features: []', NODE), {
    client_features: ['a', 'b', 'c'],
  });
  t.strictSame(
    read(
      'metadata { fields { key: "x" value { number_value: -1.5e1f } } fields: [{ key: "y" value: { bool_value: false } }, { value <string_value: "z"> key: "z" }] }',
      NODE,
    ),
    { metadata: { x: -15, y: false, z: 'z' } },
  );
  t.end();
});

t.test('a nested Any is written with its type in brackets', (t) => {
  const typed = 'envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer';
  t.strictSame(read(`transport_socket { name: "raw" typed_config { [${PREFIX}${typed}] { } } }`), {
    transport_socket: { name: 'raw', typed_config: { '@type': PREFIX + typed } },
  });
  const inner = `[ type.googleapis.com / ${CLUSTER} ] { connect_timeout { seconds: 1 } name: "a" }`;
  const parsed = parseTextFormat(
    `resources { ${inner} }`,
    'envoy.service.discovery.v3.DiscoveryResponse',
  );
  const json = resourceFromJson({ '@type': PREFIX + CLUSTER, name: 'a', connect_timeout: '1s' });
  if (!parsed.ok || !json.ok) throw new Error('not read');
  t.ok(
    Buffer.from(parsed.bytes).includes(Buffer.from(json.body)),
    'the bytes are those of JSON, so the version is the same (invariant 4)',
  );
  t.end();
});

t.test('escapes and adjacent strings', (t) => {
  t.strictSame(read(String.raw`name: "a\x41\102\n\t\"\'\\\?" 'b' "\u00e9\U0001F600é"`), {
    name: 'aAB\n\t"\'\\?bé😀é',
  });
  t.match(
    read('resource { type_url: "x/y" value: "\\377\\0" }', 'envoy.service.discovery.v3.Resource'),
    { resource: { value: { type: 'x/y', bytes: 2 } } },
  );
  t.end();
});

t.test('numbers of each type, up to the ends of their ranges', (t) => {
  const wrappers = 'google.protobuf.';
  for (const [type, texts] of [
    ['Int32Value', { '-2147483648': -2147483648, '017': 15, '- 1': -1 }],
    ['UInt32Value', { '4294967295': 4294967295, '0xFF': 255 }],
    ['Int64Value', { '-9223372036854775808': '-9223372036854775808' }],
    ['UInt64Value', { '18446744073709551615': '18446744073709551615' }],
    ['DoubleValue', { '1.5': 1.5, '.5e2': 50, '-inf': '-Infinity', nan: 'NaN', '7f': 7 }],
    ['FloatValue', { '0.5': 0.5 }],
  ] as const) {
    for (const [text, value] of Object.entries<string | number>(texts)) {
      t.strictSame(read(`value: ${text}`, wrappers + type), { value }, `${type} ${text}`);
    }
  }
  t.end();
});

t.test('each mistake is reported at its place', (t) => {
  for (const [text, message] of [
    ['name: "a"\nnam: "b"', `2:1: ${CLUSTER} has no field nam`],
    ['name "a"', '1:6: found other text, expected ":"'],
    ['name: 5', '1:7: found 5, expected text in quotes'],
    ['name: "a', '1:7: the text in quotes does not end'],
    ['name: "\\z"', '1:8: is not an escape'],
    ['name: "\\xff"', '1:7: is not valid UTF-8'],
    ['name: "a" name: "b"', '1:11: name is set twice'],
    [
      'type: EDS cluster_type { }',
      '1:11: cluster_type contradicts another field of cluster_discovery_type',
    ],
    ['type: ESD', /^1:7: must be one of STATIC, STRICT_DNS/],
    ['type: 5000000000', '1:7: is out of range'],
    ['connect_timeout {', '1:18: the file ends, expected a field or }'],
    ['connect_timeout { seconds: 1 >', '1:30: found >, expected a field or }'],
    ['connect_timeout: 5', '1:18: found 5, expected "{"'],
    ['connect_timeout { nanos: 5000000000 }', '1:26: 5000000000 is out of range'],
    ['connect_timeout { nanos: 1.5 }', '1:26: 1.5 is not a whole number'],
    ['connect_timeout { nanos: 08 }', '1:26: 08 is not a whole number'],
    ['ignore_health_on_host_removal: yes', '1:32: yes is not true or false'],
    ['[x.y] { }', `1:1: ${CLUSTER} has no such extension`],
    ['transport_socket { typed_config { [a/b.C] {} } }', /^1:35: "a\/b\.C" is not a type/],
    ['[x', '1:1: is not closed'],
    ['load_assignment { endpoints: [{ } }', '1:35: found }, expected "]"'],
    ['load_assignment { named_endpoints { kee: 1 } }', '1:37: found kee, expected key or value'],
    ['name: "a" ~', '1:11: unexpected ~'],
    [
      'metadata { filter_metadata { key: "a" value { fields { key: "b" value { number_value: x } } } } }',
      '1:87: x is not a number',
    ],
  ] as const) {
    const read_ = read(text);
    if (typeof message === 'string') t.equal(read_, message, text);
    else t.match(read_, message, text);
  }
  t.match(read('', 'no.Such'), /^1:1: no\.Such is not a type/);
  t.end();
});

t.test('nesting is bounded', (t) => {
  const text = 'struct_value { fields { value { '.repeat(200);
  t.match(read(text, 'google.protobuf.Value'), /^1:\d+: is nested too deeply/);
  t.end();
});
