/** Fuzz targets whose messages are text. */
import type { Prepared, Subject } from './target.js';
import { mutateText, type TextSource } from './text-mutator.js';

/**
 * UTF-16, which can contain half a character; messages that travel as UTF-8 are converted from it.
 */
const toBytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'utf16le'));
const toText = (message: Uint8Array): string =>
  Buffer.from(message.buffer, message.byteOffset, message.length).toString('utf16le');

export function textPrepared(
  texts: readonly string[],
  words: readonly string[],
  token: RegExp,
  open: () => { take(text: string, dice: number): boolean; end?(): void },
): Prepared {
  const seeds = texts.map(toBytes);
  // One source per corpus, so that its tokens are extracted once.
  const sources = new WeakMap<readonly Uint8Array[], TextSource>();
  return {
    seeds,
    mutate: (random, known) => {
      let source = sources.get(known);
      if (!source) sources.set(known, (source = { seeds: known.map(toText), words, token }));
      return toBytes(mutateText(random, source));
    },
    open: (): Subject => {
      const subject = open();
      return {
        take: (message, dice) => subject.take(toText(message), dice),
        ...(subject.end && { end: subject.end.bind(subject) }),
      };
    },
  };
}

/** Each message is taken by itself. */
export const stateless = (take: (text: string) => boolean) => () => ({ take });
