/**
 * Goal: sources can read the gateway's Node, and of a client's Node only the displayed fields are
 * read.
 */
import fc from 'fast-check';
import t from 'tap';
import { encodeNode, readClientNode } from '../../../protos/node-codec.js';
import { decode } from './envoy-messages.js';

t.test('an independent decoder reads an encoded Node', (t) => {
  const node = {
    id: 'tributary-1',
    cluster: 'gateways',
    locality: { region: 'r', zone: 'z', subZone: 's' },
    metadata: { text: 'a', number: 1.5, yes: true, none: null, list: [1, 'b'], nested: { c: 'd' } },
    userAgentName: 'tributary',
    userAgentVersion: '1.2.3',
  };
  const read = decode('envoy.config.core.v3.Node', encodeNode(node));
  t.match(read, {
    id: 'tributary-1',
    cluster: 'gateways',
    locality: { region: 'r', zone: 'z', sub_zone: 's' },
    user_agent_name: 'tributary',
    user_agent_version: '1.2.3',
    metadata: {
      fields: {
        text: { stringValue: 'a' },
        number: { numberValue: 1.5 },
        yes: { boolValue: true },
        none: { nullValue: 'NULL_VALUE' },
        list: { listValue: { values: [{ numberValue: 1 }, { stringValue: 'b' }] } },
        nested: { structValue: { fields: { c: { stringValue: 'd' } } } },
      },
    },
  });
  t.end();
});

t.test('id and cluster are read back; invalid bytes never throw', (t) => {
  const bytes = encodeNode({ id: 'i', cluster: 'c', userAgentName: 'u', userAgentVersion: 'v' });
  t.match(readClientNode(bytes), { id: 'i', cluster: 'c', malformed: false });
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (noise) => {
      readClientNode(noise, ['a']);
    }),
  );
  t.end();
});

t.test('a Node that is cut within a text is malformed', (t) => {
  const bytes = encodeNode({ id: 'node', cluster: 'c', userAgentName: 'a', userAgentVersion: '' });
  t.equal(readClientNode(bytes).malformed, false);
  t.match(readClientNode(Buffer.from('0a046e6f', 'hex')), { id: '', malformed: true });
  t.end();
});
