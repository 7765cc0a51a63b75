/**
 * A management server that knows dynamic parameters (TP2): it has several variants of a name, and sends a client those that its
 * locators select. In memory, without IO or time.
 */
import {
  encodeConstraints,
  decodeRequest,
  type ConstraintFields,
  type SentResource,
} from './discovery-messages.js';
import { FakeManagementServer, FakeStream } from './fake-management-server.js';
import { readConstraints } from '../../protos/parameter-constraints.js';

export interface Variant {
  /** Absent: for every client. */
  readonly constraints?: ConstraintFields;
  readonly version: string;
  readonly body: string;
}

/** Parameters as JSON, with sorted keys. */
type Parameters = string;

const parametersOf = (given: Readonly<Record<string, string>>): Parameters =>
  JSON.stringify(Object.entries(given).sort(([a], [b]) => (a < b ? -1 : 1)));

function isFor({ constraints }: Variant, parameters: Parameters): boolean {
  const read = readConstraints(encodeConstraints(constraints ?? {}));
  const given = new Map(JSON.parse(parameters) as [string, string][]);
  return typeof read !== 'object' || read.matches(given);
}

/** The identity of a variant of a name. */
const idOf = ({ constraints = {} }: Variant): string => JSON.stringify(constraints);

export class VariantServer extends FakeManagementServer {
  readonly #variants = new Map<string, readonly Variant[]>();

  override open(write: (bytes: Uint8Array) => void): FakeStream {
    const stream = new VariantStream(this, write);
    this.streams.push(stream);
    return stream;
  }

  variantsOf(name: string): readonly Variant[] {
    return this.#variants.get(name) ?? [];
  }

  /** The variant for these parameters. */
  variantFor(name: string, given: Readonly<Record<string, string>>): Variant | undefined {
    return this.variantsOf(name).find((one) => isFor(one, parametersOf(given)));
  }

  /** While no stream is open. */
  setSilently(name: string, variants: readonly Variant[]): void {
    this.#variants.set(name, variants);
  }

  /** Replaces all variants of a name: what goes and what comes is one response. */
  setVariants(typeUrl: string, name: string, variants: readonly Variant[]): void {
    this.#variants.set(name, variants);
    const { stream } = this;
    if (stream instanceof VariantStream) stream.sendChanges(typeUrl, [name]);
  }
}

/** By identity: the variant, in the version that was sent. */
type Sent = Map<string, Variant>;

class VariantStream extends FakeStream {
  readonly #server: VariantServer;
  /** By name: the parameters that are subscribed. */
  readonly #asked = new Map<string, Set<Parameters>>();
  readonly #sent = new Map<string, Sent>();

  constructor(server: VariantServer, write: (bytes: Uint8Array) => void) {
    super(server, write);
    this.#server = server;
  }

  override receive(bytes: Uint8Array): void {
    const request = decodeRequest(bytes);
    this.requests.push(request);
    if (request.nonce !== '')
      this.acks.push({ nonce: request.nonce, error: request.error?.message });
    if (this.#server.reachability === 'black_hole') return;
    const all = (names: readonly string[], locators: typeof request.locators) => [
      ...names.map((name) => ({ name, parameters: parametersOf({}) })),
      ...locators.map((one) => ({
        name: one.name,
        parameters: parametersOf(one.dynamic_parameters),
      })),
    ];
    for (const { name, parameters } of all(request.unsubscribe, request.locatorsLeft)) {
      this.#asked.get(name)?.delete(parameters);
      if (this.#asked.get(name)?.size === 0) this.#sent.delete(name);
    }
    const asked = all(request.subscribe, request.locators);
    for (const { name, parameters } of asked) {
      this.#asked.set(name, (this.#asked.get(name) ?? new Set()).add(parameters));
      // Subscribed again: sent again.
      const variant = this.#server.variantsOf(name).find((one) => isFor(one, parameters));
      if (variant) this.#sent.get(name)?.delete(idOf(variant));
    }
    const absent = asked.filter(
      ({ name, parameters }) =>
        !this.#server.variantsOf(name).some((one) => isFor(one, parameters)),
    );
    this.sendChanges(
      request.typeUrl,
      asked.map(({ name }) => name),
      absent.map(({ name }) => name),
    );
  }

  sendChanges(typeUrl: string, names: readonly string[], absent: readonly string[] = []): void {
    const resources: SentResource[] = [];
    const removed = new Set(absent);
    const removedVariants: { name: string; constraints: ConstraintFields }[] = [];
    for (const name of new Set(names)) {
      const parameters = [...(this.#asked.get(name) ?? [])];
      if (parameters.length === 0) continue;
      const sent: Sent = this.#sent.get(name) ?? new Map<string, Variant>();
      this.#sent.set(name, sent);
      const variants = this.#server.variantsOf(name);
      for (const [id, variant] of sent) {
        if (variants.some((one) => idOf(one) === id)) continue;
        sent.delete(id);
        if (variant.constraints) removedVariants.push({ name, constraints: variant.constraints });
        else removed.add(name);
      }
      for (const variant of variants) {
        const isWanted = parameters.some((one) => isFor(variant, one));
        if (!isWanted || sent.get(idOf(variant))?.version === variant.version) continue;
        sent.set(idOf(variant), variant);
        const { constraints, version, body } = variant;
        if (!constraints) removed.delete(name);
        resources.push({
          name,
          version,
          body: Buffer.from(body),
          ...(constraints && { constraints }),
        });
      }
    }
    if (resources.length + removed.size + removedVariants.length === 0) return;
    this.send({
      typeUrl,
      nonce: this.#server.nextNonce(),
      resources,
      removed: [...removed],
      removedVariants,
    });
  }
}
