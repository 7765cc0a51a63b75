/** A management server that publishes without end, and is killed and started again on the same port. */
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { bodyOf, CDS, LDS, xdstpName } from './content.js';

/** Names are few, and go and come again: a catalogue that grows would be no leak. */
const MEMBERS = 60;
const LISTENERS = 10;
/** Together more than HTTP/2's first window: a client that does not read has a part of it. */
const BIG_MEMBERS = 300;
const BODY_BYTES = 1_024;
const DELETED_SHARE = 0.1;

const randomly = <T>(all: readonly T[]): T => all[Math.floor(Math.random() * all.length)]!;

export class SoakSource {
  readonly #names: readonly (readonly [typeUrl: string, name: string])[];
  readonly #content = new Map<string, { readonly typeUrl: string; readonly body: Buffer }>();
  #upstream: ScriptedUpstream | undefined;
  #port: number | undefined;
  #publications = 0;

  private constructor(names: readonly (readonly [string, string])[]) {
    this.#names = names;
    for (const [typeUrl, name] of names) this.#put(typeUrl, name);
  }

  /** Of clusters and listeners of an authority. */
  static async ofAuthority(authority: string): Promise<SoakSource> {
    const named = (typeUrl: string, folder: string, count: number) =>
      Array.from({ length: count }, (_, at) => {
        return [typeUrl, xdstpName(typeUrl, authority, `${folder}/${at}`)] as const;
      });
    return SoakSource.#started([
      ...named(CDS, 'all', MEMBERS),
      ...named(LDS, 'all', LISTENERS),
      ...named(CDS, 'big', BIG_MEMBERS),
    ]);
  }

  /** Of clusters with old-style names. */
  static async ofPlainNames(names: readonly string[]): Promise<SoakSource> {
    return SoakSource.#started(names.map((name) => [CDS, name] as const));
  }

  static async #started(names: readonly (readonly [string, string])[]): Promise<SoakSource> {
    const source = new SoakSource(names);
    await source.start();
    return source;
  }

  get port(): number {
    return this.#port ?? 0;
  }

  /** What it has of a type now, under names that begin so. */
  content(typeUrl: string, prefix: string): ReadonlyMap<string, Buffer> {
    const found = [...this.#content].filter(
      ([name, one]) => one.typeUrl === typeUrl && name.startsWith(prefix),
    );
    return new Map(found.map(([name, { body }]) => [name, body]));
  }

  async start(): Promise<void> {
    if (this.#upstream) return;
    const upstream = await ScriptedUpstream.start(this.#port);
    for (const [name, { typeUrl, body }] of this.#content) {
      upstream.putQuietly(typeUrl, name, body);
    }
    this.#port = upstream.port;
    this.#upstream = upstream;
  }

  async stop(): Promise<void> {
    const upstream = this.#upstream;
    this.#upstream = undefined;
    await upstream?.stop();
  }

  /** Changes or deletes something, or has it again, also while it is down. */
  publish(): void {
    const [typeUrl, name] = randomly(this.#names);
    if (Math.random() < DELETED_SHARE) {
      this.#content.delete(name);
      this.#upstream?.delete(typeUrl, name);
    } else {
      this.#put(typeUrl, name);
    }
  }

  #put(typeUrl: string, name: string): void {
    const body = bodyOf(name, String(++this.#publications), BODY_BYTES);
    this.#content.set(name, { typeUrl, body });
    this.#upstream?.put(typeUrl, name, body);
  }
}
