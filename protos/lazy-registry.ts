/**
 * The types of a compiled descriptor set, each file decoded when one of its types is first needed: with all that it
 * imports, which is a tenth of the Envoy API at most. The whole set would hold up the event loop for 0.1 s.
 */
import {
  createFileRegistry,
  fromBinary,
  type DescEnum,
  type DescExtension,
  type DescFile,
  type DescMessage,
  type DescService,
  type FileRegistry,
  type Registry,
} from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { FieldCursor } from './protobuf-fields.js';

/** Fields of `google.protobuf.FileDescriptorSet`, `FileDescriptorProto`, and of the types in it. */
const FILE = 1;
const FILE_NAME = 1;
const FILE_PACKAGE = 2;
const FILE_IMPORT = 3;
/** `message_type`, `enum_type` and `service`. */
const FILE_TYPES = [4, 5, 6];
const TYPE_NAME = 1;

type DescType = DescMessage | DescEnum | DescExtension | DescService;

interface Span {
  readonly start: number;
  readonly end: number;
}

export class LazyRegistry implements Registry {
  readonly kind = 'registry';
  readonly #bytes: Uint8Array;
  /** File name → where it is in the set. */
  readonly #files = new Map<string, Span>();
  /** Name of a type that is in no other one → its file. */
  readonly #fileOf = new Map<string, readonly [name: string, span: Span]>();
  readonly #decoded = new Map<string, FileRegistry>();

  /**
   * @param bytes of a `FileDescriptorSet` without extensions, with imports before importers; not copied
   * @throws Error if it cannot be decoded
   */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    for (const { number, ...span } of fieldsOf(bytes, { start: 0, end: bytes.length })) {
      if (number === FILE) this.#index(span);
    }
  }

  /** A count. */
  get decodedFiles(): number {
    return this.#decoded.size;
  }

  /** The names of its files and types, without decoding the rest. */
  #index(file: Span): void {
    let name = '';
    let prefix = '';
    const types: string[] = [];
    for (const { number, ...span } of fieldsOf(this.#bytes, file)) {
      if (number === FILE_NAME) name = this.#text(span);
      else if (number === FILE_PACKAGE) prefix = `${this.#text(span)}.`;
      else if (FILE_TYPES.includes(number)) types.push(this.#nameOf(span));
    }
    this.#files.set(name, file);
    for (const type of types) this.#fileOf.set(prefix + type, [name, file]);
  }

  #nameOf(type: Span): string {
    for (const { number, ...span } of fieldsOf(this.#bytes, type)) {
      if (number === TYPE_NAME) return this.#text(span);
    }
    throw new Error('a type of the descriptor set has no name');
  }

  #text({ start, end }: Span): string {
    return Buffer.from(this.#bytes.buffer, this.#bytes.byteOffset + start, end - start).toString();
  }

  /**
   * Decodes what a type needs, one file with each step: all at once take 20 to 60 ms. What is decoded already, or is no type of
   * the set, takes no step.
   */
  *decoding(typeName: string): Generator<undefined> {
    const file = this.#fileOf.get(typeName);
    if (file !== undefined) yield* this.#decodingFile(...file);
  }

  *#decodingFile(name: string, file: Span): Generator<undefined> {
    if (this.#decoded.has(name)) return;
    for (const { number, ...span } of fieldsOf(this.#bytes, file)) {
      const imported = number === FILE_IMPORT ? this.#text(span) : undefined;
      const at = imported === undefined ? undefined : this.#files.get(imported);
      if (imported !== undefined && at) yield* this.#decodingFile(imported, at);
    }
    this.#decode(name, file);
    yield undefined;
  }

  /** The types of a file and of its imports. */
  #decode(name: string, { start, end }: Span): FileRegistry {
    const known = this.#decoded.get(name);
    if (known !== undefined) return known;
    const proto = fromBinary(FileDescriptorProtoSchema, this.#bytes.subarray(start, end));
    const registry = createFileRegistry(proto, (imported) => this.getFile(imported));
    this.#decoded.set(name, registry);
    return registry;
  }

  getFile(name: string): DescFile | undefined {
    const span = this.#files.get(name);
    return span && this.#decode(name, span).getFile(name);
  }

  /** @param typeName also of a type inside of another one */
  #with(typeName: string): FileRegistry | undefined {
    let outer = typeName;
    for (;;) {
      const file = this.#fileOf.get(outer);
      if (file !== undefined) return this.#decode(...file);
      const end = outer.lastIndexOf('.');
      if (end < 0) return undefined;
      outer = outer.slice(0, end);
    }
  }

  get(typeName: string): DescType | undefined {
    return this.#with(typeName)?.get(typeName);
  }

  getMessage(typeName: string): DescMessage | undefined {
    return this.#with(typeName)?.getMessage(typeName);
  }

  getEnum(typeName: string): DescEnum | undefined {
    return this.#with(typeName)?.getEnum(typeName);
  }

  getService(typeName: string): DescService | undefined {
    return this.#with(typeName)?.getService(typeName);
  }

  getExtension(): undefined {
    return undefined;
  }

  getExtensionFor(): undefined {
    return undefined;
  }

  /** All types: decodes the whole set. */
  *[Symbol.iterator](): IterableIterator<DescType> {
    for (const [name, span] of this.#files) {
      for (const type of this.#decode(name, span)) if (type.file.proto.name === name) yield type;
    }
  }
}

/** The fields with a length of a message, or of the set. */
function* fieldsOf(
  bytes: Uint8Array,
  { start, end }: Span,
): Generator<Span & { readonly number: number }> {
  const cursor = new FieldCursor(bytes, start, end);
  while (cursor.next()) {
    yield { number: cursor.number, start: cursor.valueStart, end: cursor.valueEnd };
  }
  if (cursor.malformed) throw new Error('the descriptor set is damaged');
}
