/** How a session reads a name that its client asks for, in either protocol flavour. */
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import { isXdstp, parseResourceLocator, type ResourceName } from '../../protos/resource-name.js';

export type AskedName =
  | { readonly ok: true; readonly name: ResourceName }
  /** Why this name alone is not served. */
  | { readonly ok: false; readonly status: RpcStatus };

const NOT_SERVED: AskedName = {
  ok: false,
  status: {
    code: STATUS_CODE.unimplemented,
    message: 'only xdstp:// names and their globs are served',
  },
};

/**
 * @param text as the client wrote it; `*` is the wildcard
 */
export function readAskedName(text: string): AskedName {
  if (!isXdstp(text)) return NOT_SERVED;
  const locator = parseResourceLocator(text);
  if (locator.ok) return { ok: true, name: locator.value.name };
  const { message, at } = locator.error;
  return {
    ok: false,
    status: { code: STATUS_CODE.invalidArgument, message: `${message} (at ${at})` },
  };
}
