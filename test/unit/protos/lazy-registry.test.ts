/**
 * Goal: the types of the Envoy API are found one by one, and each costs only the files that it needs, because the whole
 * set holds up the event loop for 0.1 s.
 * Method: the descriptor set itself, compared with the library's registry of it.
 */
import { readFileSync } from 'node:fs';
import {
  create,
  createFileRegistry,
  fromBinary,
  toBinary,
  type DescMessage,
} from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import t from 'tap';
import { LazyRegistry } from '../../../protos/lazy-registry.js';

const bytes = readFileSync(
  new URL('../../../../build/protos/envoy-descriptors.binpb', import.meta.url),
);
const CSDS = 'envoy.service.status.v3.ClientStatusDiscoveryService';
const whole = createFileRegistry(fromBinary(FileDescriptorSetSchema, bytes));

t.test('a lazy registry has the types of the whole set, with the same fields', (t) => {
  const lazy = new LazyRegistry(bytes);
  const names = (types: Iterable<{ readonly typeName: string }>): readonly string[] =>
    [...types].map(({ typeName }) => typeName).sort();
  t.strictSame(names(lazy), names(whole));
  const fieldsOf = ({ fields }: DescMessage): readonly string[] => fields.map(String);
  for (const type of whole) {
    if (type.kind !== 'message') continue;
    const found = lazy.getMessage(type.typeName);
    if (!found || fieldsOf(found).join() !== fieldsOf(type).join()) t.fail(type.typeName);
  }
  t.end();
});

t.test('a type decodes its own file and those that it imports, and no other', (t) => {
  const lazy = new LazyRegistry(bytes);
  t.equal(lazy.decodedFiles, 0);
  t.equal(lazy.getService(CSDS)?.typeName, CSDS);
  const ofService = lazy.decodedFiles;
  t.ok(ofService > 1 && ofService < 40, `${ofService} of ${[...whole.files].length} files`);
  const nested = 'envoy.service.status.v3.ClientConfig.GenericXdsConfig';
  t.equal(lazy.getMessage(nested)?.typeName, nested, 'a type in another one');
  t.equal(lazy.getEnum('envoy.service.status.v3.ConfigStatus')?.kind, 'enum');
  t.equal(lazy.get(nested), lazy.getMessage(nested));
  t.equal(lazy.decodedFiles, ofService, 'all of them are in the same file');
  const base = 'envoy/config/core/v3/base.proto';
  t.equal(lazy.getFile(base), lazy.getMessage('envoy.config.core.v3.Node')?.file);
  t.end();
});

t.test('what the set does not have is undefined', (t) => {
  const lazy = new LazyRegistry(bytes);
  t.equal(lazy.getMessage('no.such.Type'), undefined);
  t.equal(lazy.getMessage('envoy.config.core.v3.Node.NoSuchType'), undefined);
  t.equal(lazy.getService('no'), undefined);
  t.equal(lazy.getEnum('no'), undefined);
  t.equal(lazy.get('no'), undefined);
  t.equal(lazy.getFile('no.proto'), undefined);
  // A reader of JSON asks for them.
  lazy.getExtension();
  lazy.getExtensionFor();
  t.end();
});

t.test('a damaged set throws at once, not at the first type', (t) => {
  t.throws(() => new LazyRegistry(bytes.subarray(0, -1)), { message: /damaged/ });
  const nameless = create(FileDescriptorSetSchema, {
    file: [create(FileDescriptorProtoSchema, { name: 'a.proto', messageType: [{ field: [{}] }] })],
  });
  const set = toBinary(FileDescriptorSetSchema, nameless);
  t.throws(() => new LazyRegistry(set), { message: /has no name/ });
  t.end();
});

t.test('a type is decoded in steps, and then without any', (t) => {
  const registry = new LazyRegistry(bytes);
  const type = 'envoy.config.cluster.v3.Cluster';
  const steps = [...registry.decoding(type)].length;
  t.ok(steps > 10, `${steps} files`);
  t.equal(registry.decodedFiles, steps);
  t.equal(registry.getMessage(type)?.typeName, type);
  t.equal(registry.decodedFiles, steps, 'nothing was left');
  t.strictSame([...registry.decoding(type)], []);
  t.strictSame([...registry.decoding('no.such.Type')], []);
  t.end();
});
