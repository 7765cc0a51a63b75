/**
 * Redirects and list collections as bytes, through protobufjs reflection over the published .proto
 * files, and in the form of the TP1 text: an implementation that shares nothing with ours.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import protobuf from 'protobufjs';
import { TYPE_URL } from '../../protos/type-urls.js';

const require = createRequire(import.meta.url);
const deps = path.join(path.dirname(require.resolve('@grpc/grpc-js-xds/package.json')), 'deps');
const includes = [
  ...['xds', 'googleapis', 'protoc-gen-validate'].map((name) => path.join(deps, name)),
  path.dirname(require.resolve('protobufjs/package.json')),
];
const root = new protobuf.Root();
root.resolvePath = (_origin, target) =>
  includes.map((folder) => path.join(folder, target)).find((file) => existsSync(file)) ?? null;
root.loadSync('xds/core/v3/collection_entry.proto', { keepCase: true });
const locatorType = root.lookupType('xds.core.v3.ResourceLocator');
const entryType = root.lookupType('xds.core.v3.CollectionEntry');

export const REDIRECT = TYPE_URL.resourceLocator;

/** As published. */
export interface LocatorFields {
  readonly scheme?: number;
  readonly id: string;
  readonly authority?: string;
  readonly resource_type?: string;
  readonly exact_context?: { readonly params: Readonly<Record<string, string>> };
  readonly directives?: readonly { readonly alt?: LocatorFields; readonly entry?: string }[];
}

export const locatorBytes = (fields: LocatorFields): Uint8Array =>
  locatorType.encode(locatorType.fromObject(fields)).finish();

/** In the form of the TP1 text: a message of one string. */
export const textLocatorBytes = (text: string): Uint8Array => lengthDelimited(1, Buffer.from(text));

/** A `<T>Collection` of such entries. */
export const listBytes = (...entries: readonly Uint8Array[]): Uint8Array =>
  Buffer.concat(entries.map((entry) => lengthDelimited(1, entry)));

/** A locator entry, as published. */
export const locatorEntry = (fields: LocatorFields): Uint8Array =>
  entryType.encode(entryType.fromObject({ locator: fields })).finish();

/** A locator entry, in the form of the TP1 text. */
export const textEntry = (text: string): Uint8Array => lengthDelimited(1, Buffer.from(text));

export function inlineEntry(name: string, typeUrl: string, body: string | Uint8Array): Uint8Array {
  const value = typeof body === 'string' ? Buffer.from(body) : body;
  const resource = { type_url: typeUrl, value };
  const inline_entry = { name, version: '1', resource };
  return entryType.encode(entryType.fromObject({ inline_entry })).finish();
}

function lengthDelimited(field: number, bytes: Uint8Array): Uint8Array {
  return protobuf.Writer.create()
    .uint32((field << 3) | 2)
    .bytes(bytes)
    .finish();
}
