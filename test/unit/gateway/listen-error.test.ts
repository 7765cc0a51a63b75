/** Goal: the error of a listener names the address, the cause and what to do. */
import t from 'tap';
import { listenError } from '../../../gateway/listen-error.js';

const system = (code: string): Error => Object.assign(new Error(`listen ${code}: x`), { code });

t.test('each cause has a code and a remedy; others keep the words of the system', (t) => {
  const client = { host: '127.0.0.1', port: 80, setting: 'client' } as const;
  const inUse = listenError(client, system('EADDRINUSE'));
  t.match(inUse, { code: 'address_in_use', address: '127.0.0.1:80' });
  t.match(inUse.message, 'set another port with --client-port');
  const admin = { host: '::2', port: 9, setting: 'admin' } as const;
  const away = listenError(admin, system('EADDRNOTAVAIL'));
  t.match(away, { code: 'address_not_here', address: '[::2]:9', message: /--admin-host/ });
  t.match(listenError(client, system('EACCES')), { code: 'port_needs_privilege' });
  t.match(listenError(client, system('EIO')), { code: 'listen_failed', message: /listen EIO: x/ });
  t.match(listenError(client, system('ENOTFOUND')).message, /address of this machine/);
  t.match(listenError(client, 'odd'), { code: 'listen_failed', message: /odd/ });
  t.end();
});
