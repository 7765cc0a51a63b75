import type { Test } from 'tap';

import { freePort } from '../../support/free-port.js';
import { mesh, type MeshResource, type MeshSpec } from '../../support/mesh.js';
import { stoppedWith } from '../../support/stopped-with.js';
import { ControlPlane } from './control-plane.js';
import { readConfigDump, type EnvoyConfig } from './envoy-config.js';
import { Envoy, type EnvoyOptions } from './envoy.js';
import { startFaultProxy, type FaultProxy } from './fault-proxy.js';
import { Gateway } from './gateway.js';
import { startHttpBackend } from './http-backend.js';
import type { Security } from './security.js';
import { startTraffic, type Traffic } from './traffic.js';

export const cloud = 'cloud.example.com';
export const onprem = 'onprem.example.com';

/** For tests that do not measure how fast a loss is detected. */
export const quickTimers = {
  backoff_base: '100ms',
  backoff_max: '1s',
  keepalive_time: '1s',
  keepalive_timeout: '500ms',
  probe_interval: '1s',
  probe_timeout: '500ms',
  first_response_timeout: '2s',
  min_stable: '2s',
};

type Json = Readonly<Record<string, unknown>>;

export interface RigOptions {
  readonly totalResources?: number;
  /** The path of onprem's mesh; default `edge/`. */
  readonly onpremPath?: string;
  /** Timers of both sources. Default: {@link quickTimers}. */
  readonly timers?: Json;
  /** Settings of cloud, e.g. `alternative` and `failover`. */
  readonly authority?: Json;
  /** The gateway reaches cloud through `cloudProxy`. */
  readonly cloudThroughProxy?: boolean;
  /** Default: delta. */
  readonly apiType?: EnvoyOptions['apiType'];
  /** Cloud is killed before the gateway connects. */
  readonly cloudDown?: boolean;
  readonly security?: Security | undefined;
  readonly gatewayArgs?: readonly string[];
}

/**
 * Two control planes, the gateway, an Envoy that subscribes cloud's names through it, and traffic.
 */
export interface Rig {
  readonly cloudPlane: ControlPlane;
  readonly onpremPlane: ControlPlane;
  readonly cloudResources: readonly MeshResource[];
  readonly onpremResources: readonly MeshResource[];
  /** Between the gateway and cloud. */
  readonly cloudProxy: FaultProxy;
  /** Between Envoy and the gateway. */
  readonly clientProxy: FaultProxy;
  readonly gateway: Gateway;
  readonly envoy: Envoy;
  readonly traffic: Traffic;
  /** Ports of the backends, whose responses are `cloud` and `onprem`. */
  readonly backends: { readonly cloud: number; readonly onprem: number };
  envoyConfig(): Promise<EnvoyConfig>;
}

/** The teardown of the test stops all of it. */
export async function startRig(t: Test, options: RigOptions = {}): Promise<Rig> {
  const { totalResources = 0, onpremPath = 'edge/', security } = options;
  const stopping = <S extends { stop(): Promise<unknown> }>(starting: Promise<S>) =>
    stoppedWith(t, starting);
  const cloudBackend = await stopping(startHttpBackend('cloud'));
  const onpremBackend = await stopping(startHttpBackend('onprem'));
  const planeOptions = security === undefined ? {} : { tls: security.server };
  const cloudPlane = await stopping(ControlPlane.start({ name: 'cloud', ...planeOptions }));
  const onpremPlane = await stopping(ControlPlane.start({ name: 'onprem', ...planeOptions }));
  const cloudProxy = await stopping(startFaultProxy(cloudPlane.xdsPort));

  const listenerPort = await freePort();
  const meshOf = (authority: string, backendPort: number, pathPrefix: string): MeshSpec => ({
    authority,
    backendPort,
    pathPrefix,
    listenerPort,
    totalResources,
  });
  const cloudResources = mesh(meshOf(cloud, cloudBackend.port, 'edge/'));
  const onpremResources = mesh(meshOf(onprem, onpremBackend.port, onpremPath));
  await cloudPlane.setResources(cloudResources);
  await onpremPlane.setResources(onpremResources);
  if (options.cloudDown === true) await cloudPlane.kill();

  const cloudPort = options.cloudThroughProxy === true ? cloudProxy.port : cloudPlane.xdsPort;
  const gateway = await stopping(
    Gateway.start({
      authorityMap: authorityMap(cloudPort, onpremPlane.xdsPort, options),
      clientPort: await freePort(),
      args: [...(security?.gatewayArgs ?? []), ...(options.gatewayArgs ?? [])],
    }),
  );
  const clientProxy = await stopping(startFaultProxy(gateway.port));
  const tls = security === undefined ? {} : { tls: security.client };
  const envoy = await stopping(
    Envoy.start({
      xdsPort: clientProxy.port,
      authority: cloud,
      ...(options.apiType && { apiType: options.apiType }),
      ...tls,
    }),
  );
  await envoy.ready({ timeoutMs: 30_000 });
  const traffic = startTraffic(`http://127.0.0.1:${listenerPort}/`);
  t.teardown(() => traffic.stop());
  return {
    cloudPlane,
    onpremPlane,
    cloudResources,
    onpremResources,
    cloudProxy,
    clientProxy,
    gateway,
    envoy,
    traffic,
    backends: { cloud: cloudBackend.port, onprem: onpremBackend.port },
    envoyConfig: async () => readConfigDump(await envoy.configDump()),
  };
}

/** A map of both authorities, each with one source of its name. */
export function authorityMap(
  cloudPort: number,
  onpremPort: number,
  options: Pick<RigOptions, 'security' | 'timers' | 'authority'>,
): unknown {
  const { security, timers = quickTimers, authority = {} } = options;
  const source = (port: number): Json => ({
    target: `127.0.0.1:${port}`,
    ...(security === undefined ? { insecure: true } : { tls: security.client }),
    timers,
  });
  return {
    sources: { cloud: source(cloudPort), onprem: source(onpremPort) },
    authorities: {
      [cloud]: { sources: ['cloud'], ...authority },
      [onprem]: { sources: ['onprem'] },
    },
  };
}
