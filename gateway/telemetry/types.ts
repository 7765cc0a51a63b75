/**
 * Short names of type URLs for metric labels: `Cluster`. Clients may send any type URL, so only
 * well-known types and types of accepted resources have a name; all others are `other`.
 */
import { shortTypeOf, TYPE_URL } from '../../protos/type-urls.js';

const MAX_LEARNED = 256;
/** The label of types and authorities that only a client has named. */
export const OTHER = 'other';
/** The authority of old-style names, in counters of clients. */
export const OLD_STYLE = 'old-style';

export class TypeWords {
  readonly #words = new Map<string, string>(
    Object.values(TYPE_URL).map((typeUrl) => [typeUrl, shortTypeOf(typeUrl)]),
  );

  learn(typeUrl: string): void {
    if (this.#words.has(typeUrl) || this.#words.size >= MAX_LEARNED) return;
    this.#words.set(typeUrl, shortTypeOf(typeUrl));
  }

  word(typeUrl: string): string {
    return this.#words.get(typeUrl) ?? OTHER;
  }

  /** For logs, where any text is allowed: a type without a short name is whole. */
  told(typeUrl: string): string {
    return this.#words.get(typeUrl) ?? typeUrl;
  }

  isKnown(typeUrl: string): boolean {
    return this.#words.has(typeUrl);
  }
}
