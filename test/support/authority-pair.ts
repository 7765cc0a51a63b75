/** An authority `cloud` with the alternative `onprem`, one source each, for most failover tests. */
import {
  FederationDriver,
  mapOf,
  THING,
  thing,
  type AuthoritySketch,
  type FederationDriverOptions,
} from './federation-driver.js';

export const a = thing('cloud', 'a');
export const b = thing('cloud', 'b');
export const glob = thing('cloud', 'x/*');
export const member = (id: string): string => thing('cloud', `x/${id}`);
/** The same name at the alternative. */
export const alt = (name: string): string => name.replace('//cloud/', '//onprem/');

export type Resources = Readonly<Record<string, string>>;

/** `cloud` at source c, with the alternative `onprem` at source o. */
export function pair(
  cloud: Resources,
  onprem: Resources,
  sketch: Partial<AuthoritySketch> = {},
  options: FederationDriverOptions = {},
): FederationDriver {
  const driver = new FederationDriver(
    mapOf({
      authorities: {
        cloud: { sources: ['c'], alternatives: [{ authority: 'onprem' }], ...sketch },
        onprem: { sources: ['o'] },
      },
    }),
    options,
  );
  for (const [name, body] of Object.entries(cloud)) driver.server('c').set(THING, name, body);
  for (const [name, body] of Object.entries(onprem)) driver.server('o').set(THING, alt(name), body);
  return driver;
}

/** `cloud` at source c, whose names may lead to those of `onprem` at o and `third` at t. */
export function three(
  mayLeadTo: readonly string[] = ['onprem', 'third'],
  mapAlternative = false,
): FederationDriver {
  return new FederationDriver(
    mapOf({
      authorities: {
        cloud: {
          sources: ['c'],
          mayLeadTo,
          ...(mapAlternative && { alternatives: [{ authority: 'third' }] }),
        },
        onprem: { sources: ['o'] },
        third: { sources: ['t'] },
      },
    }),
  );
}

export const ID = 'cloud/*';
export const kindOf = (driver: FederationDriver): string => driver.group(ID).failover.kind;
/** Long enough for two failed attempts. */
export const TRIP_MS = 5_000;
/** Long enough for reconnect, hold and the wait after it. */
export const FAILBACK_MS = 70_000;
