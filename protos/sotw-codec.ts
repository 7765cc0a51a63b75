/**
 * Decodes requests and encodes responses of the state-of-the-world protocol. Resource bodies stay
 * opaque. Written by hand; delta-codec.ts says why. The decoder counts names while it reads them.
 * Field numbers: envoy/service/discovery/v3/discovery.proto; TP3 for `resource_errors`.
 */
import protobuf from 'protobufjs/minimal.js';
import type { Decoded, ResourceError, RpcStatus, SotwRequest } from './discovery.js';
import {
  decode,
  readFirstString,
  readStatus,
  readText,
  spliceResponse,
  TooMany,
  wireType,
  writeErrors,
} from './discovery-fields.js';

const { Writer } = protobuf;

/**
 * @param maxNames most names in one request; more is `too_many`
 */
export function decodeSotwRequest(bytes: Uint8Array, maxNames: number): Decoded<SotwRequest> {
  return decode(bytes, (reader) => {
    let versionInfo = '';
    let node: Uint8Array | undefined;
    let typeUrl = '';
    let responseNonce = '';
    let errorDetail: RpcStatus | undefined;
    const names: string[] = [];
    let locators: string[] | undefined;
    let asked = 0;
    const count = (): void => {
      if (++asked > maxNames) throw new TooMany(`more than ${maxNames} names in one request`);
    };
    while (reader.pos < reader.len) {
      const tag = reader.uint32();
      switch (tag) {
        case 0x0a:
          versionInfo = readText(reader);
          break;
        case 0x12:
          node = reader.bytes();
          break;
        case 0x1a:
          count();
          names.push(readText(reader));
          break;
        case 0x22:
          typeUrl = readText(reader);
          break;
        case 0x2a:
          responseNonce = readText(reader);
          break;
        case 0x32:
          errorDetail = readStatus(reader);
          break;
        case 0x3a:
          count();
          (locators ??= []).push(readFirstString(reader));
          break;
        default:
          reader.skipType(wireType(tag));
      }
    }
    const lists = { names, ...(locators && { locators }) };
    return { versionInfo, node, typeUrl, ...lists, responseNonce, errorDetail };
  });
}

/** The parts of a response. */
export interface SotwResponseParts {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly versionInfo: string;
  /** Encoded `resources` fields, with tag and length. */
  readonly resources: readonly Uint8Array[];
  readonly errors: readonly ResourceError[];
}

/** Encodes a response. Protobuf fields may have any order, so the version follows the resources. */
export function encodeSotwResponse(parts: SotwResponseParts): Buffer {
  const writer = Writer.create().uint32(0x0a).string(parts.versionInfo);
  writeErrors(writer, 0x3a, parts.errors);
  return spliceResponse(parts.typeUrl, parts.nonce, parts.resources, writer.finish());
}
