/**
 * Goal: applications with an unmodified gRPC library work behind the gateway, as does the example
 * for them.
 * Method: grpc-go, the C core and grpc-js at once, and two go-control-planes or, for the example,
 * its own files.
 */
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import t from 'tap';
import { parse } from 'yaml';

import { opensslMissing } from '../support/certificates.js';
import { grpcService, type MeshResource } from '../support/mesh.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';
import { removeScratch, scratchDirectory, tellingLogs } from './peers/child.js';
import { Gateway } from './peers/gateway.js';
import { startGrpcBackend } from './peers/grpc-backend.js';
import { GrpcClient, grpcLanguages } from './peers/grpc-client.js';
import {
  allSettle,
  nothingLost,
  processesOf,
  skipWithoutGrpcRig,
  startGrpcRig,
} from './peers/grpc-rig.js';
import { projectRoot } from './peers/provisioned.js';
import { cloud, onprem, quickTimers } from './peers/rig.js';
import { createSecurity } from './peers/security.js';

const skip = skipWithoutGrpcRig();
t.setTimeout(120_000);

t.test(
  'an application may have many channels: gRPC opens a stream for each target, the C core all on ' +
    'one connection (GRPC 2)',
  { skip },
  async (t) => {
    const services = Array.from({ length: 12 }, (_, index) => `service-${index}`);
    const targets = services.map((service) => `xds://${cloud}/${service}`);
    const rig = await startGrpcRig(t, {
      targets,
      everyMs: 40,
      more: (of, port) => services.flatMap((service) => grpcService(of, service, port)),
    });
    await tellingLogs(processesOf(rig), async () => {
      await rig.settle('cloud', targets);
      await nothingLost(
        t,
        rig.clients,
        Object.fromEntries(targets.map((target) => [target, ['cloud']])),
      );
    });
  },
);

t.test(
  'a name that no source has, and an authority that is down from the start, fail only the calls of their ' +
    'own channels, and heal (GRPC 8)',
  { skip },
  async (t) => {
    const [there, away, missing] = [
      `xds://${cloud}/shop`,
      `xds://${onprem}/shop`,
      `xds://${cloud}/late`,
    ];
    const rig = await startGrpcRig(t, {
      targets: [away, missing, there],
      down: 'onprem',
      // A go-control-plane is silent about names that it lacks.
      timers: { ...quickTimers, resource_timeout: '3s' },
    });
    await tellingLogs(processesOf(rig), async () => {
      await rig.settle('cloud', [there]);
      for (const { language, failures } of rig.clients) {
        const failed = new Set([away, missing]);
        await until(`${language}: calls of both fail`, () => {
          for (const { target } of failures) failed.delete(target);
          return failed.size === 0;
        });
      }
      await rig.onpremPlane.restart(rig.onpremResources);
      await rig.cloudPlane.patchResources(grpcService(cloud, 'late', rig.backends.spare));
      await rig.settle('onprem', [away]);
      await rig.settle('spare', [missing]);
      for (const client of rig.clients) {
        const { [there]: of } = await client.totals();
        t.match(of, { failed: 0, answers: { cloud: Number } }, client.language);
      }
    });
  },
);

t.test(
  'mutual TLS as a gRPC bootstrap states it reaches the gateway (grpc-go, C core)',
  { skip: skip || (await opensslMissing()) },
  async (t) => {
    const target = `xds://${cloud}/shop`;
    const rig = await startGrpcRig(t, { targets: [target], security: await createSecurity(t) });
    await tellingLogs(processesOf(rig), async () => {
      await rig.settle('cloud', [target]);
      await nothingLost(t, rig.clients, { [target]: ['cloud'] });
    });
  },
);

/** All resources of `service` spell its names in a non-canonical way. */
function spelledOtherwise(authority: string, service: string, port: number): MeshResource[] {
  return grpcService(authority, `${service}?a=1&z=2`, port).map((resource) => ({
    ...resource,
    json: JSON.parse(
      JSON.stringify(resource.json).replaceAll(`${service}?a=1&z=2`, `${service}?z=2&a=1`),
    ) as MeshResource['json'],
  }));
}

t.test(
  'names in payloads have one spelling: clusters whose parameters a route orders in another way ' +
    'crash no client',
  { skip },
  async (t) => {
    const target = `xds://${cloud}/spelled`;
    const client_listener_resource_name_template = `xdstp://${cloud}/envoy.config.listener.v3.Listener/%s?z=2&a=1`;
    const rig = await startGrpcRig(t, {
      targets: [target],
      more: (of, port) => spelledOtherwise(of, 'spelled', port),
      bootstrap: { authorities: { [cloud]: { client_listener_resource_name_template } } },
    });
    await tellingLogs(processesOf(rig), async () => {
      await rig.settle('cloud', [target]);
      await nothingLost(t, rig.clients, { [target]: ['cloud'] });
    });
  },
);

/** examples/grpc in a scratch folder, with the ports of this test in place of its own. */
async function copyExample(cloudPort: number, onpremPort: number): Promise<string> {
  const folder = await scratchDirectory('example');
  await cp(join(projectRoot, 'examples', 'grpc'), folder, { recursive: true });
  for (const [site, stated, port] of [
    ['cloud', 50_051, cloudPort],
    ['onprem', 50_052, onpremPort],
  ] as const) {
    const file = join(folder, site, 'shop.yaml');
    const text = await readFile(file, 'utf8');
    await writeFile(file, text.replace(`port_value: ${stated}`, `port_value: ${port}`));
  }
  return folder;
}

t.test(
  'the files of examples/grpc serve every client, and forcing the alternative moves it',
  { skip },
  async (t) => {
    const cloudBackend = await stoppedWith(t, startGrpcBackend('cloud'));
    const onpremBackend = await stoppedWith(t, startGrpcBackend('onprem'));
    const folder = await copyExample(cloudBackend.port, onpremBackend.port);
    t.teardown(() => removeScratch(folder));
    const map = await readFile(join(folder, 'authority-map.yaml'), 'utf8');
    const authorityMap: unknown = parse(map.replaceAll('path: ./', `path: ${folder}/`));
    const gateway = await stoppedWith(t, Gateway.start({ authorityMap }));
    const stated = await readFile(join(folder, 'bootstrap.json'), 'utf8');
    const bootstrap: unknown = JSON.parse(stated.replace(':18000', `:${gateway.port}`));
    const byTemplate = 'xds:///shop';
    const targets = [byTemplate, `xds://${onprem}/shop`];
    const clients = await Promise.all(
      grpcLanguages.map((language) =>
        stoppedWith(t, GrpcClient.start({ language, targets, bootstrap })),
      ),
    );
    await tellingLogs([gateway, ...clients], async () => {
      await allSettle(clients, 'cloud', [byTemplate]);
      await allSettle(clients, 'onprem', [`xds://${onprem}/shop`]);
      await gateway.admin(`/authorities/${cloud}/force?source=onprem`, 'POST');
      await allSettle(clients, 'onprem', [byTemplate]);
      await nothingLost(t, clients, {
        [byTemplate]: ['cloud', 'onprem'],
        [`xds://${onprem}/shop`]: ['onprem'],
      });
    });
  },
);
