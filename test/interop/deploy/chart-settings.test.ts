/** Goal: the gateway accepts the settings and the map that the chart makes of its values. */
import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { parseAllDocuments } from 'yaml';
import { parseAuthorityMap } from '../../../config/authority-map.js';
import { parseSettings } from '../../../config/settings.js';
import { peerPath, projectRoot, skipWithout } from '../peers/provisioned.js';

const execute = promisify(execFile);
const chart = join(projectRoot, 'deploy/helm/tributary');

interface ConfigMap {
  readonly kind: string;
  readonly data: Readonly<Record<string, string>>;
}

for (const values of ['least', 'most']) {
  t.test(
    `the gateway accepts the settings and the map of the ${values} values`,
    { skip: skipWithout('kubernetes-tools') },
    async (t) => {
      const helm = join(dirname(peerPath('kubernetes-tools')), 'helm');
      const file = join(chart, 'ci', `${values}-values.yaml`);
      const flags = ['--kube-version', '1.34.0', '--values', file];
      const { stdout } = await execute(helm, ['template', 'edge', chart, ...flags]);
      const manifests = parseAllDocuments(stdout).map((one) => one.toJS() as ConfigMap);
      const data = manifests.find(({ kind }) => kind === 'ConfigMap')?.data ?? {};
      // Without the files that the pod mounts: certificates and a token.
      const settings = parseSettings({
        argv: [],
        env: { TRIBUTARY_NODE_ID: 'pod-1' },
        file: { path: '/etc/tributary/settings.yaml', text: data['settings.yaml'] ?? '' },
      });
      t.strictSame(settings.ok ? [] : settings.problems, []);
      if (!settings.ok) return;
      t.match(settings.settings, { node: { id: 'pod-1' }, client: { host: '0.0.0.0' } });
      const map = parseAuthorityMap(data['authority-map.yaml'] ?? '', { file: 'map.yaml' });
      t.strictSame(map.ok ? [] : map.problems, []);
    },
  );
}
