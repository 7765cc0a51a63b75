import { isObject } from '../protos/json-object.js';
import { toCamelCase } from './defaults.js';
import { parseDuration, parseSize } from './durations.js';
import type { Path } from './problems.js';
import type { Part, PositionedDocument } from './yaml-positions.js';

/** Collects the problems that checks in code find. The schema collects its own. */
export interface Reporter {
  readonly problem: (path: Path, message: string, remedy?: string, part?: Part) => void;
  readonly warning: (path: Path, message: string, remedy?: string, part?: Part) => void;
}

/**
 * A value in the document and its path. The schema has already reported values of a wrong type, so
 * readers return `undefined` for them without a report. That way each mistake appears once, and the
 * checks cover the rest of the file.
 */
export class Cursor {
  constructor(
    readonly value: unknown,
    readonly path: Path,
    private readonly reporter: Reporter,
  ) {}

  static root(document: PositionedDocument, reporter: Reporter): Cursor {
    return new Cursor(document.value, [], reporter);
  }

  get present(): boolean {
    return this.value !== undefined && this.value !== null;
  }

  /** The field `name` (snake_case), also if it is written in lowerCamelCase, as proto3 JSON allows. */
  field(name: string): Cursor {
    const object = this.object();
    const camel = toCamelCase(name);
    const spelled =
      object !== undefined && !Object.hasOwn(object, name) && Object.hasOwn(object, camel);
    const key = spelled ? camel : name;
    if (!spelled && camel !== name && object !== undefined && Object.hasOwn(object, camel)) {
      this.reporter.problem(
        [...this.path, camel],
        `is the same field as ${name}`,
        'keep one',
        'key',
      );
    }
    const value = object !== undefined && Object.hasOwn(object, key) ? object[key] : undefined;
    return new Cursor(value, [...this.path, key], this.reporter);
  }

  /** The entries of a map whose keys are the operator's names. */
  entries(): readonly (readonly [string, Cursor])[] {
    return Object.entries(this.object() ?? {}).map(
      ([key, value]) => [key, new Cursor(value, [...this.path, key], this.reporter)] as const,
    );
  }

  items(): readonly Cursor[] {
    if (!Array.isArray(this.value)) return [];
    return this.value.map(
      (item: unknown, index) => new Cursor(item, [...this.path, index], this.reporter),
    );
  }

  string(): string | undefined {
    return typeof this.value === 'string' ? this.value : undefined;
  }

  number(): number | undefined {
    return typeof this.value === 'number' ? this.value : undefined;
  }

  boolean(): boolean | undefined {
    return typeof this.value === 'boolean' ? this.value : undefined;
  }

  object(): Readonly<Record<string, unknown>> | undefined {
    const { value } = this;
    return isObject(value) ? value : undefined;
  }

  /**
   * Milliseconds. `undefined` for an absent or invalid value; the latter is reported, here or by
   * the schema.
   */
  durationMs(zero: 'zero allowed' | 'more than zero'): number | undefined {
    if (typeof this.value !== 'string') return undefined;
    const read = parseDuration(this.value);
    if (!read.ok) {
      this.problem(read.message, read.remedy);
      return undefined;
    }
    if (read.value > 0 || zero === 'zero allowed') return read.value;
    this.problem('must be more than zero');
    return undefined;
  }

  /** Bytes, more than zero. `undefined` as in `durationMs`. */
  sizeBytes(): number | undefined {
    if (typeof this.value !== 'string') return undefined;
    const read = parseSize(this.value);
    if (read.ok && read.value > 0) return read.value;
    if (read.ok) this.problem('must be more than zero');
    else this.problem(read.message, read.remedy);
    return undefined;
  }

  /** The same place with another value, such as one in a short form. */
  withValue(value: unknown): Cursor {
    return new Cursor(value, this.path, this.reporter);
  }

  problem(message: string, remedy?: string, part: Part = 'value'): void {
    this.reporter.problem(this.path, message, remedy, part);
  }

  warn(message: string, remedy?: string, part: Part = 'value'): void {
    this.reporter.warning(this.path, message, remedy, part);
  }
}
