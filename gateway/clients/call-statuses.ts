/** The statuses with which calls of clients end for the same reason, whatever kind of call it is. */
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';

/** Code of the gateway threw. The log has the error, which the client does not learn. */
export const INTERNAL_ERROR: RpcStatus = { code: STATUS_CODE.internal, message: 'internal error' };

/** Ends any stream of a client whose token is no longer valid. */
export const TOKEN_EXPIRED: RpcStatus = {
  code: STATUS_CODE.unauthenticated,
  message: 'the token of the client has expired: reconnect with a new one',
};

/** Ends any stream of a client that a new map moves to another node group. */
export const OLD_STYLE_RULES_CHANGED: RpcStatus = {
  code: STATUS_CODE.unavailable,
  message: 'the rules for old-style names in the authority map changed: reconnect',
};

/** The credentials that the client's headers carried when it opened the stream. */
export const CREDENTIALS_REFUSED: RpcStatus = {
  code: STATUS_CODE.unavailable,
  message: 'a source refuses the credentials of this stream, which may have expired: reconnect',
};
