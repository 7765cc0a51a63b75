/** Goal: the quotas of a client count for what it cannot change at will (docs/SECURITY.md, "Quotas"). */
import t from 'tap';
import { quotaKeyOf } from '../../../../gateway/clients/peer.js';

t.test('without a certificate, the key is the address, and of IPv6 the network segment', (t) => {
  const keys: readonly (readonly [address: string | undefined, key: string])[] = [
    ['10.0.0.1', '10.0.0.1'],
    ['::ffff:10.0.0.1', '10.0.0.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8::7', '2001:db8:0:0::/64'],
    ['2001:db8:1::7:8', '2001:db8:1:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    [undefined, 'unknown'],
  ];
  for (const [address, key] of keys)
    t.equal(quotaKeyOf(address, undefined), key, address ?? 'gone');
  t.end();
});
