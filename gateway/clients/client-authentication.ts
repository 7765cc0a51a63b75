/**
 * Which identity does the client of a stream or a poll have? The one place that decides it, for every
 * way to the gateway: the name in its certificate, else its token, else none.
 */
import type { ClientCertificate } from '../../authorities/index.js';
import type { Chunks } from '../../protos/discovery-fields.js';
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import { identityOf, type JwtClaims, type Requester } from '../core/rights/requester.js';
import type { StreamPort } from './client-stream.js';
import type { ClientTokens } from './client-tokens.js';
import type { CallHandlers, GrpcCall } from './grpc-call.js';

/** The facts of a connection and of the headers of a call that identify the client. */
export interface ClientProof {
  /** IP address, without the port. */
  readonly address: string;
  /** The verified certificate; undefined: none. */
  readonly certificate: ClientCertificate | undefined;
  headerValues(key: string): readonly string[];
}

export type IdentifiedClient = Extract<Identified, { ok: true }>;

export type Identified =
  | {
      readonly ok: true;
      readonly requester: Requester;
      /** Of the token, if the client is known by one. */
      readonly claims?: JwtClaims;
      /** How long its token is still valid. Milliseconds; absent: the identity does not end. */
      readonly validForMs?: number;
    }
  | { readonly ok: false; readonly status: RpcStatus };

const SEVERAL: RpcStatus = {
  code: STATUS_CODE.unauthenticated,
  message: 'there is more than one authorization header',
};

export class ClientAuthentication {
  readonly #tokens: Pick<ClientTokens, 'verify'> | undefined;

  /** @param tokens undefined: `authorization` headers say nothing to this gateway */
  constructor(tokens: Pick<ClientTokens, 'verify'> | undefined) {
    this.#tokens = tokens;
  }

  /** The gateway reads tokens: clients on one connection may have different identities. */
  get readsTokens(): boolean {
    return this.#tokens !== undefined;
  }

  /** A promise only for a client with a token; it does not reject. */
  identify(proof: ClientProof): Identified | Promise<Identified> {
    const tokens = this.#tokens;
    const { address, certificate } = proof;
    const identity = identityOf(certificate, undefined);
    if (!tokens || identity.kind === 'certificate')
      return { ok: true, requester: { address, identity } };
    const [authorization, more] = proof.headerValues('authorization');
    if (authorization === undefined) return { ok: true, requester: { address, identity } };
    if (more !== undefined) return { ok: false, status: SEVERAL };
    return tokens.verify(authorization).then((token) => {
      if (!token.ok) return token;
      const { claims, validForMs } = token;
      return {
        ok: true,
        requester: { address, identity: identityOf(certificate, claims) },
        claims,
        validForMs,
      };
    });
  }

  /**
   * Opens a call when its client is known. Until then the gateway reads no message of it.
   *
   * @param start not called for a client that is refused
   */
  open(
    call: GrpcCall,
    start: (port: StreamPort, client: IdentifiedClient) => CallHandlers,
  ): CallHandlers {
    const identified = this.identify(call);
    if (!(identified instanceof Promise) && identified.ok) {
      return start(new CallPort(call, identified), identified);
    }
    let handlers: CallHandlers | undefined;
    call.holdUntil(Promise.resolve(identified), (found) => {
      if (found.ok) handlers = start(new CallPort(call, found), found);
      else call.end(found.status);
    });
    return {
      onMessage: (bytes) => handlers?.onMessage(bytes),
      onDrain: () => handlers?.onDrain(),
      onEnd: () => handlers?.onEnd(),
      onClosed: (reason, code) => handlers?.onClosed(reason, code),
    };
  }
}

/** A call whose client is known, as its stream sees it. A class: object literals with getters take ten times the memory. */
class CallPort implements StreamPort {
  readonly requester: Requester;
  readonly validForMs: number | undefined;
  readonly #call: GrpcCall;

  constructor(call: GrpcCall, { requester, validForMs }: IdentifiedClient) {
    this.requester = requester;
    this.validForMs = validForMs;
    this.#call = call;
  }

  get peer(): string {
    return this.#call.peer;
  }

  get userAgent(): string {
    return this.#call.userAgent;
  }

  headerValues(key: string): readonly string[] {
    return this.#call.headerValues(key);
  }

  get certificate(): ClientCertificate | undefined {
    return this.#call.certificate;
  }

  pauseReading(): void {
    this.#call.pauseReading();
  }

  readOn(): void {
    this.#call.readOn();
  }

  goAway(): void {
    this.#call.goAway();
  }

  write(message: Chunks): boolean {
    return this.#call.write(message);
  }

  end(status: RpcStatus | undefined): void {
    this.#call.end(status);
  }
}
