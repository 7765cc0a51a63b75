/**
 * The headers and the certificate of a call. Together with the Node they decide the node group of the client. They are
 * read while the call opens, because the transport drops the headers afterwards.
 */
import type { ClientCertificate } from '../../authorities/index.js';
import type { OldStyleSpec } from '../../config/model.js';
import { noMap } from '../../protos/empty-collections.js';
import {
  readGroupedNode,
  type ConnectionIdentity,
  type GroupedNode,
} from '../core/session/client-scope.js';

export class OpeningIdentity implements ConnectionIdentity {
  /** In effect when the call opened. Under other rules, the client has to reconnect. */
  readonly #oldStyle: OldStyleSpec | undefined;
  readonly #port: ConnectionIdentity;
  /** The headers by which these rules tell clients apart. */
  readonly #headers: ReadonlyMap<string, readonly string[]>;

  /** @param oldStyle `old_style_names` of the current authority map */
  constructor(port: ConnectionIdentity, oldStyle: OldStyleSpec | undefined) {
    this.#oldStyle = oldStyle;
    this.#port = port;
    const headers = oldStyle?.rule?.headers ?? [];
    this.#headers =
      headers.length === 0 ? noMap() : new Map(headers.map((key) => [key, port.headerValues(key)]));
  }

  headerValues(key: string): readonly string[] {
    return this.#headers.get(key) ?? [];
  }

  /** Most maps do not ask for it, and reading it costs. */
  get certificate(): ClientCertificate | undefined {
    return this.#port.certificate;
  }

  /** @param node the encoded Node of the first request, if it had one */
  group(node: Uint8Array | undefined): GroupedNode {
    return readGroupedNode(node, this.#oldStyle, this);
  }
}
