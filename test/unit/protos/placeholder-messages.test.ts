/** Goal: the two placeholders are valid messages of the published .proto files. */
import t from 'tap';
import { encodeEdsCluster, encodeEmptyAssignment } from '../../../protos/placeholder-messages.js';
import { rewritePayloadNames } from '../../../protos/payload-names.js';
import { TYPE_URL } from '../../../protos/type-urls.js';
import { decode } from './envoy-messages.js';

t.test('a cluster of type EDS over ADS, with the name of its assignment if that differs', (t) => {
  t.strictSame(decode('envoy.config.cluster.v3.Cluster', encodeEdsCluster('c', 'e')), {
    name: 'c',
    type: 'EDS',
    eds_cluster_config: {
      eds_config: { ads: {}, resource_api_version: 'V3' },
      service_name: 'e',
    },
  });
  const plain = rewritePayloadNames(TYPE_URL.cluster, encodeEdsCluster('c', ''), {
    ownName: null,
    reference: (text) => text,
  });
  t.match(plain, { ok: true, value: { ownName: 'c', edsName: 'c' } });
  t.end();
});

t.test('an assignment without endpoints', (t) => {
  const type = 'envoy.config.endpoint.v3.ClusterLoadAssignment';
  t.strictSame(decode(type, encodeEmptyAssignment('e')), { cluster_name: 'e' });
  t.end();
});
