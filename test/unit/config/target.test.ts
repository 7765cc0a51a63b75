/** Goal: an address that cannot work is found by `validate`, with a remedy (gRPC naming). */
import t from 'tap';
import { parseAuthorityMap } from '../../../config/authority-map.js';
import { formatProblem } from '../../../config/problems.js';

function said(target: string): readonly string[] {
  const text = JSON.stringify({
    sources: { one: { target, insecure: true } },
    authorities: { a: { sources: ['one'] } },
  });
  const read = parseAuthorityMap(text, { file: 'm' });
  const all = read.ok
    ? read.warnings.map((one) => `warning ${formatProblem(one)}`)
    : read.problems.map(formatProblem);
  return all.map((one) => one.replace(/m:1:\d+: sources\.one\.target: /, ''));
}

t.test('addresses of gRPC naming are accepted', (t) => {
  for (const target of [
    'a.example.com:443',
    '127.0.0.1:1',
    '[::1]:65535',
    'unix:/run/xds.sock',
    'unix-abstract:x',
    'dns:a.example.com:443',
    'dns:///a.example.com:443',
    'dns://8.8.8.8:53/a.example.com:443',
    'ipv4:127.0.0.1:1,127.0.0.2:2',
    'ipv6:[::1]:1',
  ]) {
    t.strictSame(said(target), [], target);
  }
  t.end();
});

t.test('addresses that cannot work are problems with a remedy', (t) => {
  for (const [target, words] of [
    [
      '${XDS_TARGET}',
      '${XDS_TARGET} is a variable, and the gateway replaces none (write the address itself)',
    ],
    ['$HOST:80', '$HOST is a variable'],
    ['{{ .Values.xds }}', '{{ .Values.xds }} is a variable'],
    ['127.0.0.1:99999', '99999 is not a port (write a port from 1 to 65535)'],
    ['a:0', '0 is not a port'],
    ['a:', 'the port is missing after the colon'],
    ['a:http', 'http is not a port'],
    [':80', 'has no host (write host:port)'],
    [
      '::1:80',
      '"::1:80" is not an address (write host:port, and an IPv6 address as [address]:port)',
    ],
    ['dns:///a:0', '0 is not a port'],
    ['ipv4:127.0.0.1:1,127.0.0.2:70000', '70000 is not a port'],
    ['https://a.example.com:443/x', 'is a URL, not a gRPC target (write "a.example.com:443")'],
    ['a b:1', 'must not contain white space'],
  ] as const) {
    const [first = ''] = said(target);
    t.ok(first.startsWith(words), `${target}: ${first}`);
    t.equal(said(target).length, 1, target);
  }
  t.end();
});

t.test('a missing port is a warning: gRPC takes 443', (t) => {
  for (const target of ['a.example.com', 'dns:a.example.com', '[::1]']) {
    t.match(said(target), [/^warning has no port: gRPC takes 443 \(write host:port\)/], target);
  }
  t.end();
});
