/** What streams of simulated servers have in common, whatever their flavour. */
import { CDS, LDS, lengthDelimited, REDIRECT, wireName } from './names.js';

export interface Resource {
  readonly version: string;
  readonly body: Buffer;
  readonly isRedirect: boolean;
  /** Its Any has a type that no gateway accepts. Absent: it has its own. */
  readonly isSpoiled?: boolean;
  /** Its TTL, if no heartbeat comes. */
  readonly ttlMs?: number | undefined;
}

/** A resource that reached a process, with content or as a heartbeat. */
export interface Delivered {
  readonly name: string;
  /** Undefined: no TTL. */
  readonly ttlMs: number | undefined;
  /** The mark of its content when it was sent. */
  readonly mark: number | undefined;
}

/** The way from the server to one client. */
export interface StreamPort {
  /** The node of the client, which identifies old-style names. @param node encoded */
  nodeOf(node: Uint8Array): string;
  /** @param delivered the resources in it, for the check of TTLs */
  write(bytes: Buffer, delayMs: number, delivered: readonly Delivered[]): void;
  /** Ends the stream after everything written. */
  end(afterMs: number): void;
}

/** The server's side of one stream. */
export interface ServerStream {
  /** Heartbeats are not counted: one is always on its way. */
  readonly unacknowledgedCount: number;
  subscribed(): readonly string[];
  receive(bytes: Uint8Array): void;
  /** Responds to every subscription, after a silence. */
  answerAll(): void;
  /** Sends the present state of these names. */
  announce(names: readonly string[]): void;
  /** Sends heartbeats for names whose present version the stream has received. */
  renew(names: readonly string[]): void;
  /** Sends any response, including one that no correct server would send. @returns its nonce. */
  sendResponse(typeUrl: string, resources: readonly Buffer[], removed: readonly string[]): string;
  sendBytes(bytes: Buffer): void;
  end(): void;
}

/** Does the gateway take it? @param resource undefined: the server has none */
export const isAccepted = (resource: Resource | undefined): boolean =>
  resource !== undefined && resource.isSpoiled !== true;

/** `envoy.service.discovery.v3.Resource` */
export function encodeResource(typeUrl: string, name: string, resource: Resource): Buffer {
  const { version, body, isRedirect, isSpoiled = false, ttlMs } = resource;
  const ownType = isRedirect ? REDIRECT : typeUrl;
  const any = Buffer.concat([
    lengthDelimited(1, Buffer.from(isSpoiled ? `${typeUrl}.Spoiled` : ownType)),
    lengthDelimited(2, body),
  ]);
  return Buffer.concat([
    lengthDelimited(1, Buffer.from(version)),
    lengthDelimited(2, any),
    lengthDelimited(3, Buffer.from(wireName(name))),
    ...(ttlMs === undefined ? [] : [ttlField(ttlMs)]),
  ]);
}

/** The same without a body. */
export function encodeHeartbeat(name: string, { version, ttlMs = 0 }: Resource): Buffer {
  return Buffer.concat([
    lengthDelimited(1, Buffer.from(version)),
    lengthDelimited(3, Buffer.from(wireName(name))),
    ttlField(ttlMs),
  ]);
}

/** A `google.protobuf.Duration` of less than 128 s. */
const ttlField = (ttlMs: number): Buffer =>
  lengthDelimited(6, Buffer.from([0x08, Math.floor(ttlMs / 1_000)]));

/** State of the world: does a response of this type have all resources? */
export const isWholeType = (typeUrl: string): boolean => typeUrl === CDS || typeUrl === LDS;
