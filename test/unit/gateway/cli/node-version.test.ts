import t from 'tap';
import { saferNode } from '../../../../gateway/cli/node-version.js';

t.test(
  'a version of Node.js without the fixes of node:http2 has a safer one (CVE-2026-27135, CVE-2026-56848)',
  (t) => {
    const cases: readonly (readonly [string, string | undefined])[] = [
      ['20.20.2', '24.18.1'],
      ['22.23.1', '22.23.2'],
      ['22.23.2', undefined],
      ['23.11.1', '24.18.1'],
      ['24.9.0', '24.18.1'],
      ['24.18.0', '24.18.1'],
      ['24.18.1', undefined],
      ['24.21.0', undefined],
      ['25.9.0', '24.18.1'],
      ['26.5.0', '26.5.1'],
      ['26.5.1-nightly20260730', undefined],
      ['27.0.0', undefined],
    ];
    for (const [version, safer] of cases) t.equal(saferNode(version), safer, version);
    t.end();
  },
);
