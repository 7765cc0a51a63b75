/** Mutations of text (names, JSON, YAML): tokens are dropped, doubled, moved and replaced. */
import type { Random } from '../sim/random.js';

export interface TextSource {
  readonly seeds: readonly string[];
  /** Tokens with a meaning for the reader. */
  readonly words: readonly string[];
  /** Splits a text into tokens without losing a character. */
  readonly token: RegExp;
}

const tokens = new WeakMap<TextSource, Map<string, readonly string[]>>();

function tokensOf(source: TextSource, text: string): readonly string[] {
  let known = tokens.get(source);
  if (!known) tokens.set(source, (known = new Map<string, readonly string[]>()));
  let found = known.get(text);
  if (!found) {
    found = text.match(source.token) ?? [];
    if (known.size < 2_000) known.set(text, found);
  }
  return found;
}

function howMany(random: Random): number {
  return random.chance(0.001) ? random.between(100, 5_000) : random.between(2, 6);
}

const NASTY = [
  '\0',
  '\n',
  '\r',
  '\u007f',
  '\u00e9',
  '\ud800',
  '\udfff',
  '\u{1f600}',
  '\ufeff',
  '%',
  '"',
  ' ',
];

/** Mostly of the same kind as the replaced token: a string for a string. */
function wordFor(replaced: string, random: Random, { words }: TextSource): string {
  const word = random.pick(words);
  return word[0] === replaced[0] ? word : random.pick(words);
}

function changeOnce(parts: string[], random: Random, source: TextSource): void {
  const at = random.below(parts.length + 1);
  const count = Math.min(parts.length - at, random.between(1, 4));
  const piece = parts.slice(at, at + count);
  switch (random.below(10)) {
    case 0:
      parts.splice(at, count);
      return;
    case 1:
      parts.splice(at, 0, ...piece);
      return;
    case 2:
      parts.splice(random.below(parts.length + 1), 0, ...parts.splice(at, count));
      return;
    case 3: {
      const other = tokensOf(source, random.pick(source.seeds));
      const from = random.below(other.length + 1);
      parts.splice(at, count, ...other.slice(from, from + random.between(1, 12)));
      return;
    }
    case 4:
      parts.splice(at, 1, (piece[0] ?? 'a').repeat(howMany(random)));
      return;
    case 5: {
      const text = piece[0] ?? '';
      const cut = random.below(text.length + 1);
      parts.splice(at, 1, text.slice(0, cut) + random.pick(NASTY) + text.slice(cut));
      return;
    }
    case 6: {
      const text = piece[0] ?? '';
      const cut = random.below(text.length + 1);
      parts.splice(
        at,
        1,
        text.slice(0, cut) + String.fromCharCode(random.below(128)) + text.slice(cut + 1),
      );
      return;
    }
    case 7:
      parts.splice(at, 0, random.pick(source.words));
      return;
    default:
      parts.splice(at, 1, wordFor(piece[0] ?? '', random, source));
  }
}

/** Derives a text from a seed by one to four changes. */
export function mutateText(random: Random, source: TextSource): string {
  const parts = [...tokensOf(source, random.pick(source.seeds))];
  const changes = random.chance(0.5) ? 1 : random.between(2, 4);
  for (let done = 0; done < changes && parts.length < 20_000; done++)
    changeOnce(parts, random, source);
  const text = parts.join('');
  return random.chance(0.02) ? text.slice(0, random.below(text.length + 1)) : text;
}

/** Words, and single characters between them. */
export const WORDS = /[A-Za-z0-9_]+|[^A-Za-z0-9_]/gu;
/** Strings and numbers are single tokens. */
export const JSON_TOKENS = /"(?:[^"\\]|\\.)*"|-?[0-9.eE+-]+|[A-Za-z]+|[^]/g;
/** Words, line breaks with their indent, and single characters. */
export const YAML_TOKENS = /\n *|[^\s:,{}[\]"'&*#|>-]+|[^]/g;
