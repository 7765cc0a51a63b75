/** How sessions and streams of HTTP/2 end. */

/** A session of `node:http2`, or a stream. */
export interface Http2End {
  destroy(error?: Error | number, code?: number): void;
}

/**
 * The session or stream is destroyed after the turn, whether the gateway or Node itself asks for it: while nghttp2 receives, that could
 * end the process on Node.js 20 (ADR 0030). Node may ask once for each bad frame of the turn.
 *
 * @param onAsked called at once, each time; graceful: all streams have ended, and nothing is wrong
 */
export function destroyAfterTurn(session: Http2End, onAsked?: (isGraceful: boolean) => void): void {
  const destroy = session.destroy.bind(session);
  let isAsked = false;
  session.destroy = (error, code) => {
    // Node gives an error or its code, NO_ERROR is 0.
    onAsked?.(!error && !code);
    if (isAsked) return;
    isAsked = true;
    setImmediate(destroy, error, code);
  };
}
