/**
 * Goal: files `.pb` and `.pb_text`, which Envoy reads too, have the same resources as YAML, and a mistake
 * is reported at its place.
 */
import t from 'tap';
import { formatProblem } from '../../../config/problems.js';
import { parseResourceFile } from '../../../config/resource-file.js';
import { finished } from '../../support/finished.js';
import { discoveryResponseFromJson } from '../../../protos/rest-source-json.js';
import { TYPE_URL } from '../../../protos/type-urls.js';

const CDS = TYPE_URL.cluster;

function read(text: string, file: string): readonly string[] {
  const result = parseResourceFile(text, file);
  if (!result.ok) return result.problems.map(formatProblem);
  return result.resources.map(
    ({ name, typeUrl, body }) => `${name} ${typeUrl} ${Buffer.from(body).toString('hex')}`,
  );
}

/** A binary file as `readFileSync(…, 'latin1')` gives it. */
function binary(response: object): string {
  const read = finished(discoveryResponseFromJson(JSON.stringify(response), CDS, ''));
  if (!read.ok) throw new Error(read.reason);
  return Buffer.from(read.message.bytes).toString('latin1');
}

const RESPONSE = {
  version_info: '1',
  type_url: CDS,
  resources: [
    { '@type': CDS, name: 'ä', connect_timeout: '0.255s' },
    { '@type': TYPE_URL.resource, name: 'b', ttl: '5s', resource: { '@type': CDS, name: 'b' } },
  ],
};
const TEXT = `version_info: "1"
type_url: "${CDS}"
resources { [${CDS}] { connect_timeout { nanos: 255000000 } name: "ä" } }
resources {
  [${TYPE_URL.resource}] {
    name: "b"
    ttl { seconds: 5 }
    resource { [${CDS}] { name: "b" } }
  }
}
`;

t.test('YAML, binary and text have the same names and the same bytes (invariant 4)', (t) => {
  const expected = read(JSON.stringify(RESPONSE), 'r.json');
  t.equal(expected.length, 2);
  t.strictSame(read(binary(RESPONSE), 'r.pb'), expected);
  t.strictSame(read(TEXT, 'r.pb_text'), expected);
  t.strictSame(read(TEXT, 'r.textproto'), expected);
  t.strictSame(read('', 'r.pb'), []);
  t.strictSame(read('', 'r.pb_text'), []);
  t.end();
});

t.test('a binary file keeps resources of types that the gateway does not know', (t) => {
  const any = Buffer.from('\x12\x0a\x0a\x03a/b\x12\x03\x0a\x01x', 'latin1');
  const wrapper = Buffer.concat([Buffer.from('\x1a\x01n', 'latin1'), any]);
  const typed = Buffer.from(
    `\x0a${String.fromCharCode(TYPE_URL.resource.length)}${TYPE_URL.resource}`,
  );
  const resource = Buffer.concat([typed, Buffer.of(0x12, wrapper.length), wrapper]);
  const response = Buffer.concat([Buffer.of(0x12, resource.length), resource]);
  t.strictSame(read(response.toString('latin1'), 'r.pb'), ['n a/b 0a0178']);
  t.end();
});

t.test('mistakes are reported with their place, or with the file alone', (t) => {
  const wrong = { ...RESPONSE, type_url: '' };
  const other = { '@type': TYPE_URL.listener, name: 'l' };
  t.strictSame(read('\xff\xff', 'r.pb').length, 1);
  t.match(read('\xff\xff', 'r.pb'), [/^r\.pb: is not a DiscoveryResponse: .* \(write an encoded/]);
  t.match(read(binary({ ...wrong, resources: [other] }), 'r.pb'), [
    /^r\.pb: resources\[0\]: is a Listener, and type_url is .*Cluster \(correct type_url/,
  ]);
  t.match(read(`\nresources { [${CDS}] { } }`, 'r.pb_text'), [
    'r.pb_text:2:11: resources[0]: this Cluster has no name (put it into an envoy.service.discovery.v3.Resource with a name)',
  ]);
  t.match(read(`resources { [${CDS}] { name: "a" } }\n`.repeat(2), 'r.pb_text'), [
    'r.pb_text:2:11: resources[1]: duplicate Cluster "a"',
  ]);
  t.match(read(`resources { [${TYPE_URL.resource}] { name: "a" } }`, 'r.pb_text'), [
    'r.pb_text:1:11: resources[0]: has no resource',
  ]);
  t.match(read('resources: 5', 'r.textproto'), ['r.textproto:1:12: found 5, expected "{"']);
  t.end();
});
