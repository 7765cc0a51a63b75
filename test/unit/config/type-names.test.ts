/** Goal: an operator may write a type by its short name, and a misspelt type is named with a correction. */
import t from 'tap';
import { likelyType, readType } from '../../../config/type-names.js';

t.test('docs/MAP.md: a type is a short name, a message name or a type URL', (t) => {
  const url = 'type.googleapis.com/envoy.config.cluster.v3.Cluster';
  t.strictSame(readType('Cluster'), { ok: true, typeUrl: url });
  t.strictSame(readType('envoy.config.cluster.v3.Cluster'), { ok: true, typeUrl: url });
  t.strictSame(readType(url), { ok: true, typeUrl: url });
  t.strictSame(readType('acme.v1.Thing'), {
    ok: true,
    typeUrl: 'type.googleapis.com/acme.v1.Thing',
  });
  t.strictSame(readType('clutser'), {
    ok: false,
    message: 'unknown type "clutser"',
    remedy: 'did you mean "Cluster"?',
  });
  t.match(readType('Thing'), { ok: false, remedy: /write its message name, such as envoy/ });
  t.match(readType('Resource'), { ok: false }, 'a part of responses, not a resource');
  t.end();
});

t.test('a message name that is like a known one is probably that one', (t) => {
  t.equal(likelyType('envoy.api.v2.Listener'), 'envoy.config.listener.v3.Listener');
  t.equal(likelyType('envoy.config.cluster.v3.Clutser'), 'envoy.config.cluster.v3.Cluster');
  t.equal(likelyType('quilkin.config.v1alpha1.Cluster'), undefined, 'of another project');
  t.equal(likelyType('type.googleapis.com/envoy.config.cluster.v3.Cluster'), undefined);
  t.equal(likelyType('envoy.config.route.v3.VirtualHost'), undefined);
  t.equal(likelyType('acme.v1.Thing'), undefined);
  t.end();
});
