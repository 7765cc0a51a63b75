import protobuf from 'protobufjs/minimal.js';
import t from 'tap';
import { hasEndpoints } from '../../../protos/load-assignment.js';

const named = (): protobuf.Writer => protobuf.Writer.create().uint32(0x0a).string('shop');
/** With one locality that has this field, of type bytes. */
const localityWith = (field: number): protobuf.Writer =>
  named()
    .uint32(0x12)
    .fork()
    .uint32((1 << 3) | 2)
    .bytes(new Uint8Array(2))
    .uint32((field << 3) | 2)
    .bytes(new Uint8Array(4))
    .ldelim();

t.test(
  'an assignment has endpoints if one of its localities has some, or names some (LEDS)',
  (t) => {
    const policy = named().uint32(0x22).fork().ldelim();
    for (const [what, body, expected] of [
      ['without localities', named(), false],
      ['with a policy alone', policy, false],
      ['with an empty locality', named().uint32(0x12).fork().ldelim(), false],
      ['with a locality that has a name and metadata', localityWith(9), false],
      ['lb_endpoints', localityWith(2), true],
      ['load_balancer_endpoints', localityWith(7), true],
      ['leds_cluster_locality_config', localityWith(8), true],
      ['a number where a locality belongs', named().uint32(0x10).uint32(5), false],
      ['a locality that ends too early', named().uint32(0x12).bytes(Uint8Array.of(0x0a, 9)), true],
      ['bytes that end too early', named().uint32(0x12), true],
    ] as const) {
      t.equal(hasEndpoints(body.finish()), expected, what);
    }
    t.end();
  },
);
