/** Rules for the clients of a test, which the test changes. */
import { GRANTED, type Verdict } from '../../gateway/core/rights/rights.js';
import { STATUS_CODE } from '../../protos/discovery.js';
import type { ResourceName } from '../../protos/resource-name.js';

export const status = { code: STATUS_CODE.permissionDenied, message: 'not for this client' };
export const DENIED: Verdict = { kind: 'denied', status, isHidden: false };
export const HIDDEN: Verdict = { kind: 'denied', status, isHidden: true };

export class Rules {
  /** Decides by the key of the name. */
  denies: (key: string) => boolean = () => false;
  verdict = DENIED;

  readonly judge = (_typeUrl: string, { key }: ResourceName): Verdict =>
    this.denies(key) ? this.verdict : GRANTED;
}

export const all = (): boolean => true;
export const none = (): boolean => false;
export const only =
  (...names: readonly string[]) =>
  (key: string): boolean =>
    names.includes(key);
