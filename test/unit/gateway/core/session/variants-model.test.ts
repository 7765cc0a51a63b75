/**
 * Goal: whatever happens between a source with variants (TP2) and its clients, each client holds its variant, never two, and loses
 * none that its source has.
 * Method: random changes of variants, clients and streams, through the real federation, cache and sessions.
 */
import assert from 'node:assert/strict';
import t from 'tap';
import fc from 'fast-check';
import { DeltaSession } from '../../../../../gateway/core/delta/delta-session.js';
import { ResourceCache } from '../../../../../gateway/core/cache/resource-cache.js';
import { decodeDeltaResponse } from '../../../../../protos/delta-codec.js';
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import { formatParameters } from '../../../../../protos/dynamic-parameters.js';
import { readConstraints } from '../../../../../protos/parameter-constraints.js';
import { onlyFor, type ConstraintFields } from '../../../../support/discovery-messages.js';
import { FederationDriver, mapOf, thing, THING } from '../../../../support/federation-driver.js';
import { request } from '../../../../support/model-client.js';
import { Instance } from '../../../../support/session-driver.js';
import { VariantServer, type Variant } from '../../../../support/variant-server.js';

type Given = Readonly<Record<string, string>>;

const NAMES = ['g/1', 'g/2', 'h/3'].map((id) => thing('a', id));
/** By client: the last one is a caching proxy. */
const GIVEN: readonly (readonly Given[])[] = [
  [{}],
  [{ env: 'prod' }],
  [{ env: 'test' }],
  [{ env: 'prod', v: '1' }],
  [{ env: 'prod', v: '2' }],
  [{}, { env: 'test' }, { env: 'prod', v: '1' }, { env: 'prod', v: '2' }],
];

const not = (one: ConstraintFields): ConstraintFields => ({ not_constraints: one });
const all = (...constraints: ConstraintFields[]): ConstraintFields => ({
  and_constraints: { constraints },
});
const PROD = onlyFor('env', 'prod');
/** Sets of variants. In each, at most one variant is for any client, as TP2 demands of a control plane. */
const SHAPES: readonly (readonly (ConstraintFields | undefined)[])[] = [
  [],
  [undefined],
  [PROD],
  [PROD, not(PROD)],
  [PROD, onlyFor('env', 'test')],
  [all(PROD, onlyFor('v', '1')), all(PROD, not(onlyFor('v', '1')))],
];

/** A client with the same sets of parameters for all names. */
class Client {
  readonly #session: DeltaSession;
  readonly #nowMs: () => number;
  readonly #isCalm: boolean;
  readonly given: readonly Given[];
  readonly names = new Set<string>();
  /** By name, then by constraints. */
  readonly held = new Map<string, Map<string, string>>();

  /** @param isCalm no stream of the source ends: after that, removals wait, and a replaced variant may stay for others */
  constructor(cache: ResourceCache, given: readonly Given[], isCalm: boolean, nowMs: () => number) {
    this.#isCalm = isCalm;
    this.#session = new DeltaSession({
      ...new Instance().settings,
      cache,
      onReady: () => undefined,
    });
    this.#nowMs = nowMs;
    this.given = given;
  }

  change(name: string, isAsked: boolean): void {
    if (isAsked) this.names.add(name);
    else this.names.delete(name);
    if (!isAsked) this.held.delete(name);
    const all = this.given.map((one) => ({
      name,
      parameters: formatParameters(Object.entries(one)),
    }));
    const locators = all.filter(({ parameters }) => parameters !== '');
    const names = locators.length < all.length ? [name] : [];
    this.#session.handleRequest(
      request({
        typeUrl: THING,
        subscribe: isAsked ? names : [],
        unsubscribe: isAsked ? [] : names,
        locators: {
          subscribe: isAsked ? locators : [],
          unsubscribe: isAsked ? [] : locators,
        },
      }),
      this.#nowMs(),
    );
  }

  /** Takes all responses, and ACKs them. */
  poll(): void {
    for (;;) {
      const response = this.#session.takeResponse(this.#nowMs());
      if (!response) return;
      const decoded = decodeDeltaResponse(wholeOf(response.chunks), 1_000);
      assert.ok(decoded.ok);
      const { resources, removed, removedVariants = [], nonce } = decoded.message;
      const said = new Set<string>();
      const once = (id: string): void => {
        assert.ok(!said.has(id), `${id} twice in one response`);
        said.add(id);
      };
      for (const { name, constraints, body } of resources) {
        const text = textOf(constraints);
        once(`${name} ${text}`);
        if (!this.names.has(name)) continue;
        const variants = this.held.get(name) ?? new Map<string, string>();
        this.held.set(name, variants.set(text, Buffer.from(body ?? []).toString()));
      }
      for (const name of removed) {
        once(`${name} `);
        this.held.get(name)?.delete('');
      }
      for (const { name, constraints } of removedVariants) {
        once(`${name} ${textOf(constraints)}`);
        this.held.get(name)?.delete(textOf(constraints));
      }
      if (this.#isCalm) this.checkAmbiguity();
      this.#session.handleRequest(request({ typeUrl: THING, responseNonce: nonce }), this.#nowMs());
    }
  }

  /** TP2, "Matching Ambiguity". */
  checkAmbiguity(): void {
    for (const [name, variants] of this.held) {
      for (const given of this.given) {
        const matching = [...variants.keys()].filter((text) => MATCHES.get(text)?.(given) ?? true);
        const said = `${matching.join(' and ')} of ${name} are for ${JSON.stringify(given)}`;
        assert.ok(matching.length <= 1, said);
      }
    }
  }

  close(): void {
    this.#session.close(this.#nowMs());
  }
}

/** By the text of constraints. */
const MATCHES = new Map<string, (given: Given) => boolean>();

function textOf(constraints: Uint8Array | undefined): string {
  const read = readConstraints(constraints ?? new Uint8Array());
  if (typeof read !== 'object') return '';
  MATCHES.set(read.text, (given) => read.matches(new Map(Object.entries(given))));
  return read.text;
}

const at = fc.nat(1_000);
const step = fc.oneof(
  { arbitrary: fc.record({ kind: fc.constant('set' as const), name: at, shape: at }), weight: 4 },
  fc.record({ kind: fc.constant('ask' as const), client: at, name: at }),
  fc.record({ kind: fc.constant('leave' as const), client: at, name: at }),
  fc.record({ kind: fc.constant('join' as const), given: at }),
  fc.record({ kind: fc.constant('part' as const), client: at }),
  fc.record({ kind: fc.constantFrom('cut', 'kill', 'revive'), client: at }),
  fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(20_000) }),
);

const steps = fc.array(step, { minLength: 10, maxLength: 80, size: 'max' });
const calmSteps = steps.map((some) => some.filter(({ kind }) => kind !== 'cut' && kind !== 'kill'));

const of = <T>(list: readonly T[], index: number): T => {
  const one = list[index % list.length];
  assert.ok(one !== undefined);
  return one;
};

class World {
  readonly driver: FederationDriver;
  readonly server = new VariantServer();
  readonly cache: ResourceCache;
  readonly clients: Client[] = [];
  readonly #isCalm: boolean;
  #marks = 0;

  /** @param hasAlternative of a source without dynamic parameters */
  constructor(hasAlternative: boolean, isCalm: boolean) {
    this.#isCalm = isCalm;
    const authorities = {
      a: { sources: ['s'], ...(hasAlternative && { alternatives: [{ authority: 'b' }] }) },
      b: { sources: ['t'] },
    };
    const timers = { minStableMs: 0 };
    this.driver = new FederationDriver(mapOf({ authorities, variants: ['s'], timers }));
    this.driver.servers.set('s', this.server);
    this.cache = new ResourceCache(this.driver.directory, new Instance().settings);
    for (const id of ['g/1', 'g/2']) this.driver.publish('t', thing('b', id), 'onprem');
    for (const given of [0, 3, 5]) this.join(of(GIVEN, given));
    this.driver.pump();
  }

  join(given: readonly Given[]): void {
    const client = new Client(this.cache, given, this.#isCalm, () => this.driver.nowMs);
    for (const name of NAMES) client.change(name, true);
    this.clients.push(client);
  }

  /** Variants that stay keep their content every other time. */
  set(name: string, shape: readonly (ConstraintFields | undefined)[]): void {
    const before = this.server.variantsOf(name);
    const variants = shape.map((constraints): Variant => {
      const same = before.find(
        (one) => JSON.stringify(one.constraints) === JSON.stringify(constraints),
      );
      const mark = `${++this.#marks}`;
      if (same && this.#marks % 2 === 0) return same;
      return { ...(constraints && { constraints }), version: mark, body: mark };
    });
    if (this.server.streams.length > 0 && this.driver.isConnected('s'))
      this.server.setVariants(THING, name, variants);
    else this.server.setSilently(name, variants);
  }

  perform(next: typeof step extends fc.Arbitrary<infer S> ? S : never): void {
    switch (next.kind) {
      case 'set':
        this.set(of(NAMES, next.name), of(SHAPES, next.shape));
        break;
      case 'ask':
      case 'leave':
        of(this.clients, next.client).change(of(NAMES, next.name), next.kind === 'ask');
        break;
      case 'join':
        if (this.clients.length < 6) this.join(of(GIVEN, next.given));
        break;
      case 'part':
        if (this.clients.length > 1)
          this.clients.splice(next.client % this.clients.length, 1)[0]?.close();
        break;
      case 'cut':
        if (this.driver.isConnected('s')) this.driver.cut('s');
        break;
      case 'kill':
        this.driver.kill('s');
        break;
      case 'revive':
        this.driver.revive('s');
        break;
      case 'wait':
        this.pass(next.ms);
    }
    this.pass(0);
  }

  pass(ms: number): void {
    const untilMs = this.driver.nowMs + ms;
    do {
      this.driver.advance(Math.min(500, untilMs - this.driver.nowMs));
      while (this.cache.handleTimer(this.driver.nowMs));
      this.driver.pump();
      for (const client of this.clients) client.poll();
      this.driver.pump();
    } while (this.driver.nowMs < untilMs);
  }

  /** At rest, each client holds what the source has for it. */
  check(): void {
    for (const client of this.clients) {
      client.checkAmbiguity();
      const { given, names, held } = client;
      for (const name of names) {
        const variants = given.flatMap((one) => this.server.variantFor(name, one) ?? []);
        const bodies = new Set(variants.map(({ body }) => body));
        const has = [...(held.get(name)?.values() ?? [])];
        const said = `${JSON.stringify(given)} holds its variants of ${name}`;
        assert.deepEqual(has.sort(), [...bodies].sort(), said);
      }
    }
    for (const { acks } of this.server.streams) {
      assert.deepEqual(
        acks.filter(({ error }) => error !== undefined),
        [],
      );
    }
  }
}

t.test('clients hold exactly their variants, whatever came before (TP2)', (t) => {
  fc.assert(
    fc.property(fc.boolean(), fc.oneof(steps, calmSteps), (hasAlternative, some) => {
      const isCalm = !some.some(({ kind }) => kind === 'cut' || kind === 'kill');
      const world = new World(hasAlternative, isCalm);
      for (const next of some) world.perform(next);
      world.driver.revive('s');
      world.pass(400_000);
      world.check();
    }),
    { numRuns: 150 },
  );
  t.end();
});
