/**
 * Goal: a REST source connects to the addresses that its gRPC target names (gRPC naming).
 * Method: the parser alone.
 */
import t from 'tap';
import { restEndpointsOf } from '../../../../../authorities/core/sources/rest-endpoints.js';

t.test('each form of a gRPC target gives its addresses in order', (t) => {
  for (const [target, endpoints] of [
    ['cp.example.com:8080', [{ host: 'cp.example.com', port: 8080 }]],
    ['cp.example.com', [{ host: 'cp.example.com', port: 443 }]],
    ['dns:cp.example.com:1', [{ host: 'cp.example.com', port: 1 }]],
    ['dns:///cp.example.com:1', [{ host: 'cp.example.com', port: 1 }]],
    ['dns://8.8.8.8/cp.example.com', [{ host: 'cp.example.com', port: 443 }]],
    [
      'ipv4:10.0.0.1:1,10.0.0.2:2',
      [
        { host: '10.0.0.1', port: 1 },
        { host: '10.0.0.2', port: 2 },
      ],
    ],
    ['ipv6:[::1]:1', [{ host: '::1', port: 1 }]],
    ['[::1]:1', [{ host: '::1', port: 1 }]],
    ['unix:run/x.sock', [{ socketPath: 'run/x.sock' }]],
    ['unix:///run/x.sock', [{ socketPath: '/run/x.sock' }]],
    ['unix-abstract:x', [{ socketPath: '\0x' }]],
  ] as const) {
    t.strictSame(restEndpointsOf(target, 443), endpoints, target);
  }
  t.end();
});

t.test('a text without an address is not a target', (t) => {
  for (const target of ['', ':80', 'xds:///x', 'a:b:c', '::1', 'ipv4:1.2.3.4:1,']) {
    t.equal(restEndpointsOf(target, 80), undefined, target);
  }
  t.end();
});
