/** Goal: a type has the same names everywhere, however it is written. */
import t from 'tap';
import { messageOf, shortTypeOf, TYPE_URL } from '../../../protos/type-urls.js';

t.test('a type has one message name and one short name', (t) => {
  t.equal(messageOf(TYPE_URL.cluster), 'envoy.config.cluster.v3.Cluster');
  t.equal(messageOf('envoy.config.cluster.v3.Cluster'), 'envoy.config.cluster.v3.Cluster');
  t.equal(messageOf('example.com/of/types/Thing'), 'Thing', 'what follows the last slash');
  t.equal(shortTypeOf(TYPE_URL.cluster), 'Cluster');
  t.equal(shortTypeOf('envoy.config.cluster.v3.Cluster'), 'Cluster');
  t.equal(shortTypeOf('Cluster'), 'Cluster');
  t.equal(shortTypeOf('type.googleapis.com/Thing'), 'Thing', 'a type without a package');
  t.end();
});
