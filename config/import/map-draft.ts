/** An authority map in the making, from a bootstrap. */
import { isDeepStrictEqual } from 'node:util';
import { Document } from 'yaml';
import type { Json } from './json-fields.js';

interface OldStyleEntry {
  readonly sources: readonly string[];
  readonly types?: readonly string[];
}

/** A name for the source at a gRPC target: its host, or its path. */
export function nameOfTarget(target: string): string {
  const address = target
    .replace(/^[a-z][a-z0-9+.-]*:\/\/[^/]*\//, '')
    .replace(/^(dns|ipv4|ipv6|unix):/, '');
  const host = /^\[([^\]]*)\]/.exec(address)?.[1] ?? address.replace(/:\d+(,.*)?$/, '');
  return host === '' ? 'source' : host;
}

export class MapDraft {
  readonly #sources = new Map<string, Json>();
  readonly #authorities = new Map<string, { sources: string[]; ignoreDeletion: boolean }>();
  readonly #notes: string[] = [];
  oldStyle: readonly OldStyleEntry[] = [];
  defaultSources: readonly string[] = [];

  /** Notes a part of the bootstrap that the map cannot express. @param path of that part */
  note(path: string, message: string): void {
    const text = `${path}: ${message}`;
    if (!this.#notes.includes(text)) this.#notes.push(text);
  }

  /** @returns the name in the map: equal sources are one, and others get a number */
  addSource(wanted: string, entry: Json): string {
    for (let count = 1; ; count++) {
      const name = count === 1 ? wanted : `${wanted}-${count}`;
      const known = this.#sources.get(name);
      if (known && !isDeepStrictEqual(known, entry)) continue;
      this.#sources.set(name, entry);
      return name;
    }
  }

  addAuthority(name: string, sources: readonly string[], ignoreDeletion = false): void {
    const known = this.#authorities.get(name) ?? { sources: [], ignoreDeletion: false };
    known.sources.push(...sources.filter((source) => !known.sources.includes(source)));
    known.ignoreDeletion ||= ignoreDeletion;
    this.#authorities.set(name, known);
  }

  hasAuthority(name: string): boolean {
    return this.#authorities.has(name);
  }

  get hasSources(): boolean {
    return this.#sources.size > 0;
  }

  /** Gives each management server this Node. */
  setNode(node: Json): void {
    for (const [name, entry] of this.#sources) {
      if (!('path' in entry)) this.#sources.set(name, { ...entry, node });
    }
  }

  /** @param head the first lines of the comment. @returns the map as YAML, with the notes as comments */
  toYaml(head: readonly string[]): string {
    const authorities = [...this.#authorities].map(([name, { sources, ignoreDeletion }]) => [
      name,
      { sources, ...(ignoreDeletion ? { ignore_deletion: true } : {}) },
    ]);
    const value = {
      sources: Object.fromEntries(this.#sources),
      ...(authorities.length > 0 ? { authorities: Object.fromEntries(authorities) as Json } : {}),
      ...(this.oldStyle.length > 0 ? { old_style_names: { served_by: this.oldStyle } } : {}),
      ...(this.defaultSources.length > 0
        ? { default_config_source: { sources: this.defaultSources } }
        : {}),
    };
    const document = new Document(value, { aliasDuplicateObjects: false });
    const paths = 'Relative paths are relative to this file.';
    const notes =
      this.#notes.length === 0
        ? []
        : [
            '',
            'The map cannot express these parts of the bootstrap:',
            ...this.#notes.map((note) => `- ${note}`),
          ];
    document.commentBefore = [...head, paths, ...notes]
      .map((line) => (line === '' ? '' : ` ${line}`))
      .join('\n');
    return document.toString({ lineWidth: 100 });
  }
}
