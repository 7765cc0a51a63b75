import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** A program that the interop tests run against, or with which they check deploy/, provisioned by `scripts/provision.mjs`. */
export type PeerName =
  | 'envoy'
  | 'nats-server'
  | 'control-plane'
  | 'grpc-go-client'
  | 'grpcurl'
  | 'grpcdebug'
  | 'grpc-python-client'
  | 'grpc-java-client'
  | 'java-control-plane'
  | 'promtool'
  | 'hadolint'
  | 'kubernetes-tools'
  | 'chromium'
  | 'zsh'
  | 'fish';

export type Peer =
  | { readonly present: true; readonly path: string }
  | { readonly present: false; readonly reason: string };

interface Provisioned {
  readonly path: string;
  readonly present: boolean;
  readonly mayBeMissing: boolean;
}

interface Provisioning {
  available(): Readonly<Record<PeerName, Provisioned>>;
  javaCommandOf(program: string): readonly [string, ...string[]];
}

/** The project's folder; this file may run from any output folder within it. */
export const projectRoot = ((): string => {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder);
  return folder;
})();

const provisioning = (await import(
  pathToFileURL(join(projectRoot, 'scripts', 'provision.mjs')).href
)) as Provisioning;

/**
 * The path of a peer, or the reason for skipping a test that needs it.
 *
 * @throws Error when it is missing under `CI=true`, where no test may be skipped, except for a peer that the registry
 * may not offer.
 */
export function requirePeer(name: PeerName): Peer {
  const { path, present, mayBeMissing } = provisioning.available()[name];
  if (present) return { present, path };
  const reason = mayBeMissing
    ? `${name} is not provisioned: run node scripts/provision.mjs, which tells whether the registry offers it`
    : `${name} is not provisioned: run node scripts/provision.mjs`;
  if (process.env['CI'] === 'true' && !mayBeMissing) throw new Error(reason);
  return { present: false, reason };
}

/** For tap's `skip`: the first reason, or `false` when all peers are present. */
export function skipWithout(...names: readonly PeerName[]): string | false {
  for (const name of names) {
    const peer = requirePeer(name);
    if (!peer.present) return peer.reason;
  }
  return false;
}

/** @throws Error when the peer is missing. */
export function peerPath(name: PeerName): string {
  const peer = requirePeer(name);
  if (!peer.present) throw new Error(peer.reason);
  return peer.path;
}

/** The command line of a Java program. */
export function javaCommand(name: PeerName): readonly [string, ...string[]] {
  return provisioning.javaCommandOf(peerPath(name));
}
