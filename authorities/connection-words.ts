/** The errors of connections to sources, in words that an operator can act on. */

/** What the libraries say → what it means, and the remedy. The first one that matches counts. */
const MEANINGS: readonly (readonly [RegExp, string])[] = [
  [
    /certificate has expired/,
    'the certificate of the source, or of its CA, has expired (renew it there)',
  ],
  [
    /certificate is not yet valid/,
    'the certificate of the source is not valid yet (compare the clocks)',
  ],
  [
    /self-signed certificate|unable to (?:verify the first|get (?:local )?issuer) certificate/,
    'no CA of this source signed its certificate (correct tls.ca; without it, the CAs of Node.js count)',
  ],
  [
    /wrong version number|packet length too long/,
    'the source does not speak TLS at this port (correct the port, or write insecure: true)',
  ],
  [
    /alert (?:certificate required|bad certificate|unknown ca|certificate unknown|certificate expired)/,
    'the source refuses the client certificate, or there is none (correct tls.cert and tls.key)',
  ],
  [
    // grpc-js has no words for it.
    /^undefined$/,
    'the HTTP proxy of the environment does not connect to the source (correct grpc_proxy, https_proxy or http_proxy, or exempt the source with no_proxy)',
  ],
  [
    // grpc-js, when a connection ends before the first frame of HTTP/2.
    /Failed to connect/,
    'the source closed the connection before it spoke HTTP/2 (if it wants TLS, leave out insecure: true)',
  ],
];

const WRONG_NAME = /(Hostname\/IP does not match certificate's altnames: .*)/s;

/** @param message an error of Node.js */
export function connectionWords(message: string): string {
  const meaning = MEANINGS.find(([said]) => said.test(message));
  if (meaning) return meaning[1];
  const wrongName = WRONG_NAME.exec(message)?.[1];
  if (wrongName === undefined) return message;
  return `${wrongName} (write a name of the certificate as tls.server_name)`;
}

/** @param details of a status of grpc-js. The words of the source itself stay as they are. */
export function statusWords(details: string): string {
  // grpc-js appends a note of its resolver, which is mostly empty.
  const text = details.replace(/\.? Resolution note: $/, '');
  const own = /^No connection established\. Last error: (?:Error: )?/.exec(text)?.[0];
  return own === undefined ? text : connectionWords(text.slice(own.length));
}
