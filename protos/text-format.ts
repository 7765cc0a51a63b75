/**
 * Parses protobuf text format (protobuf.dev/reference/protobuf/textformat-spec), which Envoy reads from
 * files `.pb_text`. Driven by the descriptor set of the Envoy API. Without extensions and groups, which
 * that API does not have.
 */
import {
  fromBinary,
  ScalarType,
  toBinary,
  type DescEnum,
  type DescField,
  type DescMessage,
  type Registry,
} from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { envoyRegistry } from './envoy-registry.js';
import { quotable, quotableType, TextFault, TextTokens, type Token } from './text-tokens.js';
import { messageOf, TYPE_URL_PREFIX } from './type-urls.js';

export type TextFormatResult =
  | {
      readonly ok: true;
      /** The encoded message. */
      readonly bytes: Uint8Array;
      /** The place of a value of the outermost message; of its beginning if it has no such value. */
      readonly placeOf: (field: string, index: number) => TextPlace;
    }
  | ({ readonly ok: false; readonly message: string } & TextPlace);

/** Both count from 1. */
export interface TextPlace {
  readonly line: number;
  readonly column: number;
}

/** protobuf's own limit. */
const MAX_DEPTH = 100;
const ANY = 'google.protobuf.Any';
const MAP_KEY = 1;
const MAP_VALUE = 2;

/**
 * @param typeName of the message, such as `envoy.service.discovery.v3.DiscoveryResponse`
 * @returns its bytes, or the first mistake. Throws only if the descriptor set is missing.
 */
export function parseTextFormat(text: string, typeName: string): TextFormatResult {
  const registry = envoyRegistry();
  const tokens = new TextTokens(text);
  const offsets = new Map<string, number[]>();
  try {
    const desc = registry.getMessage(typeName);
    if (!desc) throw new TextFault(0, `${typeName} is not a type of the built-in Envoy API (v3)`);
    const writer = new BinaryWriter();
    new MessageParser(tokens, registry, (name, offset) => {
      const known = offsets.get(name);
      if (known) known.push(offset);
      else offsets.set(name, [offset]);
    }).readFields(desc, writer, undefined, 0);
    const placeOf = (field: string, index: number): TextPlace =>
      tokens.placeOf(offsets.get(field)?.[index] ?? 0);
    return { ok: true, bytes: writer.finish(), placeOf };
  } catch (error) {
    const offset = error instanceof TextFault ? error.offset : tokens.stoppedAt;
    const message = error instanceof Error ? error.message : String(error);
    return { ok: false, message, ...tokens.placeOf(offset) };
  }
}

/** One of these. */
interface ValueType {
  readonly message?: DescMessage | undefined;
  readonly enum?: DescEnum | undefined;
  readonly scalar?: ScalarType | undefined;
}

class MessageParser {
  readonly #tokens: TextTokens;
  readonly #registry: Registry;
  readonly #onField: (name: string, offset: number) => void;

  constructor(
    tokens: TextTokens,
    registry: Registry,
    onField: (name: string, offset: number) => void,
  ) {
    this.#tokens = tokens;
    this.#registry = registry;
    this.#onField = onField;
  }

  /** @param close the closing bracket; undefined: the end of the text */
  readFields(
    desc: DescMessage,
    writer: BinaryWriter,
    close: string | undefined,
    depth: number,
  ): void {
    const seen = new Set<string>();
    for (;;) {
      const token = this.#tokens.next();
      if (token.kind === 'end' && close === undefined) return;
      if (token.kind === 'mark' && token.text === close) return;
      if (token.kind === 'mark' && token.text === '[') this.#readAny(desc, writer, token, depth);
      else if (token.kind === 'word') this.#readField(desc, writer, token, { seen, depth });
      else throw unexpected(token, close === undefined ? 'a field' : `a field or ${close}`);
      if (!this.#tokens.take(',')) this.#tokens.take(';');
    }
  }

  #readField(
    desc: DescMessage,
    writer: BinaryWriter,
    token: Token,
    { seen, depth }: { readonly seen: Set<string>; readonly depth: number },
  ): void {
    const field = desc.fields.find(({ name }) => name === token.text);
    if (!field)
      throw new TextFault(token.offset, `${desc.typeName} has no field ${quotable(token.text)}`);
    const isRepeated = field.fieldKind === 'list' || field.fieldKind === 'map';
    if (!isRepeated) noteOnce(field, seen, token);
    const isMessage = field.fieldKind === 'map' || field.message !== undefined;
    const hasColon = this.#tokens.take(':');
    if (!hasColon && !isMessage) throw unexpected(this.#tokens.next(), '":"');
    const read = (): void => {
      if (depth === 0) this.#onField(field.name, this.#tokens.peek().offset);
      if (field.fieldKind === 'map') this.#readEntry(field, writer, depth);
      else this.#readValue(field, field.number, writer, depth);
    };
    if (!isRepeated || !this.#tokens.take('[')) {
      read();
      return;
    }
    if (this.#tokens.take(']')) return;
    do read();
    while (this.#tokens.take(','));
    this.#tokens.expect(']');
  }

  #readValue(field: ValueType, number: number, writer: BinaryWriter, depth: number): void {
    if (field.message) this.#readMessage(field.message, number, writer, depth);
    else if (field.enum) {
      writer.tag(number, WireType.Varint).int32(this.#readEnum(field.enum));
    } else if (field.scalar !== undefined) this.#readScalar(field.scalar, number, writer);
  }

  #readMessage(desc: DescMessage, number: number, writer: BinaryWriter, depth: number): void {
    const close = this.#open(depth);
    writer.tag(number, WireType.LengthDelimited).fork();
    this.readFields(desc, writer, close, depth + 1);
    writer.join();
  }

  /** @returns the bracket that closes the message which begins here */
  #open(depth: number): string {
    const token = this.#tokens.next();
    if (depth >= MAX_DEPTH) throw new TextFault(token.offset, 'is nested too deeply');
    if (token.kind === 'mark' && token.text === '{') return '}';
    if (token.kind === 'mark' && token.text === '<') return '>';
    throw unexpected(token, '"{"');
  }

  /** An entry of a map is a message with `key` and `value`; an absent one has its default. */
  #readEntry(field: DescField & { fieldKind: 'map' }, writer: BinaryWriter, depth: number): void {
    const close = this.#open(depth);
    writer.tag(field.number, WireType.LengthDelimited).fork();
    for (;;) {
      const token = this.#tokens.next();
      if (token.kind === 'mark' && token.text === close) break;
      const colon = this.#tokens.take(':');
      const isValue = token.text === 'value';
      if (token.kind !== 'word' || !(isValue || token.text === 'key')) {
        throw unexpected(token, 'key or value');
      }
      if (!colon && !(isValue && field.message)) throw unexpected(this.#tokens.next(), '":"');
      if (isValue) this.#readValue(field, MAP_VALUE, writer, depth + 1);
      else this.#readScalar(field.mapKey, MAP_KEY, writer);
      if (!this.#tokens.take(',')) this.#tokens.take(';');
    }
    writer.join();
  }

  /** `[type.googleapis.com/full.Name] { … }` inside an Any. */
  #readAny(desc: DescMessage, writer: BinaryWriter, open: Token, depth: number): void {
    const typeUrl = this.#tokens.bracketed(open);
    const name = messageOf(typeUrl);
    if (desc.typeName !== ANY || !typeUrl.includes('/')) {
      throw new TextFault(open.offset, `${desc.typeName} has no such extension`);
    }
    const inner = this.#registry.getMessage(name);
    if (!inner) {
      const message = `${quotableType(typeUrl)} is not a type of the built-in Envoy API (v3)`;
      throw new TextFault(open.offset, message);
    }
    this.#tokens.take(':');
    const close = this.#open(depth);
    const body = new BinaryWriter();
    this.readFields(inner, body, close, depth + 1);
    // In the order of field numbers, as every other form of the file gives it.
    const bytes = toBinary(inner, fromBinary(inner, body.finish()));
    writer.tag(1, WireType.LengthDelimited).string(TYPE_URL_PREFIX + name);
    writer.tag(2, WireType.LengthDelimited).bytes(bytes);
  }

  #readEnum(desc: DescEnum): number {
    const token = this.#tokens.next();
    if (token.kind === 'word') {
      const found = desc.values.find(({ name }) => name === token.text);
      if (found) return found.number;
      const names = desc.values.map(({ name }) => name).join(', ');
      throw new TextFault(token.offset, `must be one of ${names}`);
    }
    const value = Number(this.#tokens.integer(token));
    if (value !== (value | 0)) throw new TextFault(token.offset, 'is out of range');
    return value;
  }

  #readScalar(type: ScalarType, number: number, writer: BinaryWriter): void {
    const token = this.#tokens.next();
    try {
      this.#writeScalar(type, token, number, writer);
    } catch (error) {
      if (error instanceof TextFault) throw error;
      // The writer checks ranges.
      throw new TextFault(token.offset, `${quotable(token.text)} is out of range`);
    }
  }

  #writeScalar(type: ScalarType, token: Token, number: number, writer: BinaryWriter): void {
    const tokens = this.#tokens;
    const varint = (): BinaryWriter => writer.tag(number, WireType.Varint);
    const bit32 = (): BinaryWriter => writer.tag(number, WireType.Bit32);
    const bit64 = (): BinaryWriter => writer.tag(number, WireType.Bit64);
    const delimited = (): BinaryWriter => writer.tag(number, WireType.LengthDelimited);
    const int = (): number => Number(tokens.integer(token));
    switch (type) {
      case ScalarType.DOUBLE:
        return void bit64().double(tokens.float(token));
      case ScalarType.FLOAT:
        return void bit32().float(tokens.float(token));
      case ScalarType.INT64:
        return void varint().int64(tokens.integer(token));
      case ScalarType.UINT64:
        return void varint().uint64(tokens.integer(token));
      case ScalarType.INT32:
        return void varint().int32(int());
      case ScalarType.FIXED64:
        return void bit64().fixed64(tokens.integer(token));
      case ScalarType.FIXED32:
        return void bit32().fixed32(int());
      case ScalarType.BOOL:
        return void varint().bool(tokens.boolean(token));
      case ScalarType.STRING:
        return void delimited().string(tokens.string(token));
      case ScalarType.BYTES:
        return void delimited().bytes(tokens.bytes(token));
      case ScalarType.UINT32:
        return void varint().uint32(int());
      case ScalarType.SFIXED32:
        return void bit32().sfixed32(int());
      case ScalarType.SFIXED64:
        return void bit64().sfixed64(tokens.integer(token));
      case ScalarType.SINT32:
        return void varint().sint32(int());
      case ScalarType.SINT64:
        return void varint().sint64(tokens.integer(token));
    }
  }
}

function noteOnce(field: DescField, seen: Set<string>, token: Token): void {
  // Members of a oneof exclude one another.
  const key = field.oneof ? `oneof ${field.oneof.name}` : field.name;
  if (!seen.has(key)) {
    seen.add(key);
    return;
  }
  const message = field.oneof ? `contradicts another field of ${field.oneof.name}` : 'is set twice';
  throw new TextFault(token.offset, `${field.name} ${message}`);
}

function unexpected({ kind, text, offset }: Token, wanted: string): TextFault {
  const found = kind === 'end' ? 'the file ends' : `found ${quotable(text)}`;
  return new TextFault(offset, `${found}, expected ${wanted}`);
}
