/**
 * Goal: whichever way a client reaches a name, it gets what its identity allows and nothing else, also
 * while the rules change.
 * Method: every {identity × authority × path × type × flavour × way} as one client of one real upstream
 * core and cache, compared with a model of ten lines. Each resource has a mark, so that content which
 * comes by a wrong way shows in the bytes.
 */
import t from 'tap';
import type { ClientGrant, ClientRule } from '../../../../../config/model.js';
import { DeltaSession } from '../../../../../gateway/core/delta/delta-session.js';
import { ResourceCache } from '../../../../../gateway/core/cache/resource-cache.js';
import { identityOf, type Identity } from '../../../../../gateway/core/rights/requester.js';
import { rightsOf, verdictOf, type Judge } from '../../../../../gateway/core/rights/rights.js';
import { SotwSession } from '../../../../../gateway/core/sotw/sotw-session.js';
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import { decodeDeltaResponse } from '../../../../../protos/delta-codec.js';
import { TYPE_URL, TYPE_URL_PREFIX } from '../../../../../protos/type-urls.js';
import { listBytes, textEntry } from '../../../../support/collection-messages.js';
import { decodeSotwResponse } from '../../../../support/discovery-messages.js';
import {
  FederationDriver,
  mapOf,
  nameOf,
  scopeOfId,
  THING,
} from '../../../../support/federation-driver.js';
import { request } from '../../../../support/model-client.js';
import { encode } from '../../../protos/envoy-messages.js';

// ---- the world -----------------------------------------------------------------------------------

const SECRET = `${TYPE_URL_PREFIX}test.v1.Secret`;
const TYPES = [THING, SECRET, TYPE_URL.cluster];
const AUTHORITIES = ['cloud', 'onprem'];
const DIRECTORIES = ['edge', 'core'];
const SOURCES = new Map([
  ['cloud', 'c'],
  ['onprem', 'o'],
]);
const OLD_STYLE = '';
const SCOPE = scopeOfId('n');

const urn = (authority: string, type: string, id: string): string =>
  `xdstp://${authority}/${type.slice(TYPE_URL_PREFIX.length)}/${id}`;
const markOf = (authority: string, type: string, id: string): string =>
  `<${authority} ${type} ${id}>`;

/** @param revision marks content that is published later */
function bodyOf(type: string, mark: string, revision = 1): Uint8Array {
  const text = `${mark}${revision}`;
  return type === TYPE_URL.cluster
    ? encode('envoy.config.cluster.v3.Cluster', { alt_stat_name: text })
    : Buffer.from(text);
}

function publishAll(driver: FederationDriver, revision = 1): void {
  for (const type of TYPES) {
    for (const [authority, source] of SOURCES) {
      for (const id of DIRECTORIES.map((directory) => `${directory}/x`)) {
        const mark = markOf(authority, type, id);
        driver.publish(source, urn(authority, type, id), bodyOf(type, mark, revision), type);
      }
    }
    driver.publish('l', 'web', bodyOf(type, markOf(OLD_STYLE, type, 'web'), revision), type);
  }
}

/** One request, all the names that it asks for, and the content that it brings if they are allowed. */
interface Case {
  readonly way: string;
  readonly type: string;
  readonly text: string;
  readonly asked: readonly (readonly [authority: string, id: string])[];
  readonly mark: string;
  readonly isResuming?: true;
}

function casesOf(type: string, authority: string, directory: string): readonly Case[] {
  const named = (way: string, id: string, mark: string): Case => {
    return { way, type, text: urn(authority, type, id), asked: [[authority, id]], mark };
  };
  const id = `${directory}/x`;
  const own = markOf(authority, type, id);
  const far = markOf('onprem', type, 'core/x');
  const list = urn(authority, `${type}Collection`, `${directory}/all`);
  return [
    named('name', id, own),
    named('glob', `${directory}/*`, own),
    named('redirect', `${directory}/moved`, far),
    { ...named('list', `${directory}/all`, far), text: list },
    {
      ...named('#alt', id, own),
      text: `${urn('lone', type, id)}#alt=${urn(authority, type, id)}`,
      asked: [
        ['lone', id],
        [authority, id],
      ],
    },
    { ...named('resume', id, own), isResuming: true },
    {
      ...named('alternative', id, markOf('cloud', type, id)),
      text: urn('backed', type, id),
      asked: [['backed', id]],
    },
  ];
}

const CASES: readonly Case[] = TYPES.flatMap((type) => [
  ...AUTHORITIES.flatMap((authority) =>
    DIRECTORIES.flatMap((directory) => casesOf(type, authority, directory)),
  ),
  ...['web', '*'].map((text) => ({
    way: `old-style ${text}`,
    type,
    text,
    asked: [[OLD_STYLE, text]] as const,
    mark: markOf(OLD_STYLE, type, 'web'),
  })),
]);

// ---- the rules, and what they mean ---------------------------------------------------------------

const xdstp = (authority: string, prefix: string, types?: readonly string[]): ClientGrant => ({
  kind: 'xdstp',
  authority,
  paths: [{ prefix }],
  types,
});
const rule = (match: ClientRule['match'], ...allow: readonly ClientGrant[]): ClientRule => ({
  match,
  allow,
  limits: {},
  hideExistence: false,
});

const RULES: readonly ClientRule[] = [
  rule(
    { spiffe: 'spiffe://a/edge' },
    xdstp('cloud', 'edge/'),
    xdstp('lone', ''),
    xdstp('onprem', '', ['Secret']),
  ),
  rule({ jwt: { sub: 'core' } }, xdstp('*', 'core/', ['Thing', 'Cluster'])),
  rule(
    { dns: 'one.test' },
    {
      kind: 'xdstp',
      authority: 'cloud',
      paths: [{ id: 'edge/x' }],
      types: undefined,
    },
  ),
  rule({ anonymous: true }, { kind: 'old_style', types: undefined }),
];

const IDENTITIES: Readonly<Record<string, Identity>> = {
  edge: identityOf({ uris: ['spiffe://a/edge'], dnsNames: [] }, undefined),
  core: identityOf(undefined, { sub: 'core' }),
  one: identityOf({ uris: [], dnsNames: ['one.test'] }, undefined),
  anonymous: identityOf(undefined, undefined),
  stranger: identityOf({ uris: ['spiffe://b/edge'], dnsNames: [] }, undefined),
};

/** The rules above in other words. */
const MODEL: Readonly<Record<string, (authority: string, id: string, type: string) => boolean>> = {
  edge: (authority, id, type) =>
    (authority === 'cloud' && id.startsWith('edge/') && type !== SECRET) ||
    (authority === 'lone' && type !== SECRET) ||
    (authority === 'onprem' && type === SECRET),
  core: (authority, id, type) =>
    authority !== OLD_STYLE && id.startsWith('core/') && type !== SECRET,
  one: (authority, id, type) => authority === 'cloud' && id === 'edge/x' && type !== SECRET,
  anonymous: (authority, _id, type) => authority === OLD_STYLE && type !== SECRET,
  stranger: () => false,
};

// ---- clients -------------------------------------------------------------------------------------

class Client {
  /** The bytes of the responses since the last `take`. */
  #bytes = '';
  removed: readonly string[] = [];
  errors: readonly string[] = [];
  readonly #session: DeltaSession | SotwSession;

  constructor(
    readonly what: Case,
    readonly identityName: string,
    readonly flavour: 'delta' | 'sotw',
    cache: ResourceCache,
    judge: Judge,
  ) {
    const shared = {
      cache,
      judge,
      scopeOf: () => ({ kind: 'scope' as const, scope: SCOPE }),
      maxNames: 100,
      chunkBytes: 1_000_000,
      ackDeadlineMs: 16_000,
      onReady: () => undefined,
    };
    const never = { placeholderAfterMs: undefined, unanswerableAfterMs: undefined };
    this.#session =
      flavour === 'delta'
        ? new DeltaSession({ ...shared, silentAbsentRoutes: false })
        : new SotwSession({ ...shared, ...never });
  }

  get title(): string {
    return `${this.identityName} ${this.flavour} ${this.what.way}: ${this.what.text}`;
  }

  ask(nowMs: number): void {
    const { type: typeUrl, text, isResuming } = this.what;
    if (this.#session instanceof DeltaSession) {
      const initialVersions = new Map(isResuming ? [[text, 'old']] : []);
      const asked = request({ typeUrl, subscribe: [text], initialVersions });
      this.#session.handleRequest(asked, nowMs);
    } else this.#sendSotw(nowMs, isResuming ? 'old' : '', '');
  }

  #sendSotw(nowMs: number, versionInfo: string, responseNonce: string): void {
    if (this.#session instanceof DeltaSession) return;
    const { type: typeUrl, text } = this.what;
    const names = [text];
    const rest = { node: undefined, errorDetail: undefined };
    this.#session.handleRequest({ ...rest, typeUrl, names, versionInfo, responseNonce }, nowMs);
  }

  poll(nowMs: number): void {
    for (;;) {
      const response = this.#session.takeResponse(nowMs);
      if (!response) return;
      const bytes = wholeOf(response.chunks);
      this.#bytes += bytes.toString('latin1');
      if (this.#session instanceof DeltaSession) {
        const decoded = decodeDeltaResponse(bytes, 1_000);
        if (!decoded.ok) throw new Error(decoded.reason);
        const { typeUrl, nonce: responseNonce, removed, errors } = decoded.message;
        this.removed = [...this.removed, ...removed];
        this.errors = [...this.errors, ...errors.map(({ name }) => name)];
        this.#session.handleRequest(request({ typeUrl, responseNonce }), nowMs);
      } else {
        const { nonce, versionInfo, errors } = decodeSotwResponse(bytes);
        this.errors = [...this.errors, ...errors.map(({ name }) => name)];
        this.#sendSotw(nowMs, versionInfo, nonce);
      }
    }
  }

  handleRightsChanged(): void {
    this.#session.handleRightsChanged();
  }

  /** Marks of all content since the last call, without repetitions. */
  take(): readonly string[] {
    const marks = this.#bytes.match(/<[^<>]*>\d/g) ?? [];
    this.#bytes = '';
    return [...new Set(marks)].sort();
  }
}

class World {
  readonly driver = new FederationDriver(
    mapOf({
      authorities: {
        cloud: { sources: ['c'], mayLeadTo: ['onprem'] },
        onprem: { sources: ['o'] },
        lone: { sources: ['gone'], mayLeadTo: AUTHORITIES },
        backed: { sources: ['dead'], alternatives: [{ authority: 'cloud' }] },
      },
      oldStyle: { differBy: ['id'], servedBy: [{ sources: ['l'] }] },
    }),
  );
  rules: readonly ClientRule[] | undefined = RULES;
  readonly clients: readonly Client[];

  constructor() {
    const { driver } = this;
    for (const source of ['dead', 'gone']) driver.kill(source);
    publishAll(driver);
    for (const type of TYPES) {
      for (const [authority, source] of SOURCES) {
        for (const directory of DIRECTORIES) {
          const far = urn('onprem', type, 'core/x');
          driver.redirect(source, urn(authority, type, `${directory}/moved`), far, type);
          const list = urn(authority, `${type}Collection`, `${directory}/all`);
          driver.publish(source, list, listBytes(textEntry(far)), `${type}Collection`);
        }
      }
    }
    const cache = new ResourceCache(driver.directory, {
      tombstonesPerCollection: 100,
      tombstoneMaxAgeMs: 3_600_000,
      unsubscribedLingerMs: 60_000,
      maxUnsubscribedNames: 1_000,
    });
    this.clients = Object.entries(IDENTITIES).flatMap(([identityName, identity]) => {
      const judge: Judge = (typeUrl, name) =>
        verdictOf(rightsOf(this.rules, { identity, address: '' }, ''), typeUrl, name);
      return CASES.flatMap((what) =>
        (['delta', 'sotw'] as const).map(
          (one) => new Client(what, identityName, one, cache, judge),
        ),
      );
    });
    for (const client of this.clients) client.ask(driver.nowMs);
    this.settle();
  }

  /** Long enough for failover, for whole collections and for removals. */
  settle(): void {
    for (let steps = 0; steps < 40; steps++) {
      this.driver.advance(1_000);
      for (const client of this.clients) client.poll(this.driver.nowMs);
      this.driver.pump();
    }
  }

  reload(rules: readonly ClientRule[] | undefined): void {
    this.rules = rules;
    for (const client of this.clients) client.handleRightsChanged();
    this.settle();
  }
}

const mayAsk = ({ identityName, what }: Client): boolean =>
  what.asked.every(([authority, id]) => MODEL[identityName]?.(authority, id, what.type) === true);

t.test(
  'every identity gets by every way what the model allows, and never anything else (invariant 23)',
  (t) => {
    const world = new World();
    const { clients, driver } = world;
    t.equal(clients.length, 5 * 2 * 3 * (2 * 2 * 7 + 2));
    const wrong: string[] = [];
    /** Globs bring every member of their directory, redirected ones too. */
    const expected = ({ what }: Client, revision: number): readonly string[] => {
      const far = markOf('onprem', what.type, 'core/x');
      const marks = what.way === 'glob' ? [what.mark, far] : [what.mark];
      return [...new Set(marks)].map((mark) => `${mark}${revision}`).sort();
    };
    const check = (when: string, client: Client, marks: readonly string[]): void => {
      const got = client.take();
      if (got.join() !== marks.join()) wrong.push(`${when} ${client.title}: ${got.join()}`);
    };
    for (const client of clients) {
      check('first', client, mayAsk(client) ? expected(client, 1) : []);
      const isTold = client.errors.some((name) =>
        client.what.text.startsWith(name.split('#')[0] ?? ''),
      );
      if (isTold === mayAsk(client)) wrong.push(`error ${client.title}`);
      if (client.what.isResuming && !mayAsk(client) && client.flavour === 'delta') {
        if (!client.removed.includes(client.what.text)) wrong.push(`kept ${client.title}`);
      }
    }
    // As after the hint of a peer instance, and with new content.
    for (const type of TYPES)
      driver.federation.revalidate(type, nameOf(urn('cloud', type, 'edge/x')), driver.nowMs);
    publishAll(driver, 2);
    world.settle();
    for (const client of clients)
      check('changed', client, mayAsk(client) ? expected(client, 2) : []);
    for (const client of clients) client.removed = [];
    world.reload([]);
    publishAll(driver, 3);
    world.settle();
    for (const client of clients) {
      const { what, flavour } = client;
      // The set of clusters is sent with the old content until the removal may be sent.
      const left = flavour === 'sotw' && what.type === TYPE_URL.cluster ? client.take() : [];
      if (left.some((mark) => mark.endsWith('3'))) wrong.push(`revoked ${client.title}`);
      check('revoked', client, []);
      const isWildcard = what.text === '*';
      const gone = isWildcard ? 'web' : what.text;
      if (mayAsk(client) && flavour === 'delta' && !client.removed.includes(gone)) {
        wrong.push(`not removed ${client.title}: ${client.removed.join()}`);
      }
    }
    world.reload(undefined);
    for (const client of clients) check('granted', client, expected(client, 3));
    t.strictSame(wrong.slice(0, 20), []);
    t.end();
  },
);
