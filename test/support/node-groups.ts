/**
 * A federation that serves old-style names, and the content of its watchers, with names as on the
 * wire.
 */
import { wireText } from '../../protos/resource-name.js';
import {
  FederationDriver,
  mapOf,
  scopeOfId,
  type MapSketch,
  type OldStyleSketch,
  type RecordingWatcher,
} from './federation-driver.js';

/** An old-style name in the node group of `nodeId`. */
export const at = (nodeId: string, text: string): string => `\n${scopeOfId(nodeId)}\n${text}`;

export function driverOf(
  servedBy: OldStyleSketch['servedBy'],
  sketch: Partial<MapSketch> & { readonly differBy?: OldStyleSketch['differBy'] } = {},
): FederationDriver {
  const { differBy = ['id'], ...rest } = sketch;
  return new FederationDriver(
    mapOf({ authorities: {}, ...rest, oldStyle: { differBy, servedBy } }),
  );
}

/** The notifications of a watcher, with names as on the wire. */
export const toldTo = (watcher: RecordingWatcher): readonly string[] =>
  watcher.take().map((line) => line.replace(/\n[^\n]*\n/, ''));

export const heldBy = ({ held }: RecordingWatcher): Readonly<Record<string, string>> =>
  Object.fromEntries([...held].map(([key, body]) => [wireText(key), body]));
