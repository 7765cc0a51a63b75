/**
 * Goal: an Envoy is served from a control plane that only answers polls, moves to a delta source and
 * back without a lost request, and loses only what was deleted (docs/SPEC.md, "What each variant of a
 * source does"; invariants 3, 17).
 * Method: go-control-plane's HTTP gateway over its SnapshotCache, a second go-control-plane on delta ADS,
 * the gateway as a process of its own with `default_config_source` alone, a real Envoy, traffic all along.
 */
import t from 'tap';

import { freePort } from '../support/free-port.js';
import { inOldStyle, mesh, type MeshResource } from '../support/mesh.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { ControlPlane } from './peers/control-plane.js';
import { readConfigDump } from './peers/envoy-config.js';
import { Envoy } from './peers/envoy.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { startHttpBackend } from './peers/http-backend.js';
import { skipWithout } from './peers/provisioned.js';
import { quickTimers } from './peers/rig.js';
import { startTraffic } from './peers/traffic.js';

t.setTimeout(120_000);

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();
const NODE = 'envoy-1';

t.test(
  'an Envoy moves from polls of go-control-plane to a delta source and back, and loses no request ' +
    '(invariants 3, 17)',
  { skip },
  async (t) => {
    const stopped = async <S extends { stop(): Promise<unknown> }>(starting: Promise<S>) => {
      const started = await starting;
      t.teardown(() => started.stop());
      return started;
    };
    const cloudBackend = await stopped(startHttpBackend('cloud'));
    const onpremBackend = await stopped(startHttpBackend('onprem'));
    const cloud = await stopped(ControlPlane.start({ name: 'cloud', byNode: true }));
    const onprem = await stopped(ControlPlane.start({ name: 'onprem', byNode: true }));
    const listenerPort = await freePort();
    const resourcesOf = (authority: string, backendPort: number) =>
      inOldStyle(mesh({ authority, backendPort, listenerPort, totalResources: 60 }));
    const ofCloud = resourcesOf('cloud', cloudBackend.port);
    await cloud.setSnapshot(NODE, ofCloud);
    await onprem.setSnapshot(NODE, resourcesOf('onprem', onpremBackend.port));
    const common = { insecure: true, timers: quickTimers };
    const gateway = await stopped(
      Gateway.start({
        authorityMap: {
          sources: {
            cloud: {
              ...{ ...common, target: `127.0.0.1:${cloud.restPort}` },
              ...{ api_type: 'REST', refresh_delay: '200ms', request_timeout: '2s' },
            },
            onprem: { ...common, target: `127.0.0.1:${onprem.xdsPort}` },
          },
          default_config_source: { sources: ['cloud', 'onprem'], failover: { hold: '3s' } },
        },
      }),
    );
    const envoy = await stopped(
      Envoy.start({ collections: 'wildcard', xdsPort: gateway.port, apiType: 'DELTA_GRPC' }),
    );
    await tellingLogs([gateway, envoy, cloud, onprem], async () => {
      await envoy.ready({ timeoutMs: 30_000 });
      const traffic = startTraffic(`http://127.0.0.1:${listenerPort}/`);
      t.teardown(() => traffic.stop());
      await traffic.untilOnly('cloud');
      t.equal((await cloud.streams()).opened, 0, 'only polls');

      const clusters = async () => readConfigDump(await envoy.configDump()).clusters;
      t.ok((await clusters()).has('edge/filler-0003'));
      const isKept = ({ name }: MeshResource): boolean => !name.endsWith('filler-0003');
      await cloud.setSnapshot(NODE, ofCloud.filter(isKept));
      await until('the deletion', async () => !(await clusters()).has('edge/filler-0003'));

      await cloud.kill();
      await traffic.untilOnly('onprem');
      await cloud.restart();
      await cloud.setSnapshot(NODE, ofCloud);
      await traffic.untilOnly('cloud');

      const { requests, failures } = await traffic.stop();
      t.strictSame(failures, [], `0 of ${requests} requests lost`);
      const refused = [...(await envoy.stats(''))].filter(
        ([name, count]) => name.endsWith('.update_rejected') && count > 0,
      );
      t.strictSame(refused, [], 'Envoy refused nothing');
    });
  },
);
