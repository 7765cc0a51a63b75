/** Reads values of a bootstrap: proto3 JSON, with names in snake_case or lowerCamelCase. */
import { isObject } from '../../protos/json-object.js';
import { toCamelCase } from '../defaults.js';

export type Json = Readonly<Record<string, unknown>>;

/** @param name in snake_case. @returns undefined: absent, or `object` is not an object */
export function field(object: unknown, name: string): unknown {
  if (!isObject(object)) return undefined;
  const value = object[name] ?? object[toCamelCase(name)];
  return value ?? undefined;
}

/** The field at the end of a path of objects. */
export const fieldAt = (object: unknown, ...names: readonly string[]): unknown =>
  names.reduce(field, object);

export function textOf(object: unknown, name: string): string | undefined {
  const value = field(object, name);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export function listOf(object: unknown, name: string): readonly unknown[] {
  const value = field(object, name);
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}

/** The texts in a list, without its other items. */
export const textsOf = (object: unknown, name: string): readonly string[] =>
  listOf(object, name).filter((item) => typeof item === 'string');

export function entriesOf(object: unknown, name: string): readonly (readonly [string, unknown])[] {
  const value = field(object, name);
  return isObject(value) ? Object.entries(value) : [];
}

/** The object without its undefined fields. */
export const withoutUndefined = (object: Json): Json =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
