import fc from 'fast-check';
import t from 'tap';
import { project } from '../../../authorities/core/projection.js';
import { ownNameTypes, payloadShapes } from '../../../protos/payload-name-table.js';
import { ownNameOf, referencesIn, rewritePayloadNames } from '../../../protos/payload-names.js';
import type { NameRewrite, RewrittenPayload } from '../../../protos/payload-names.js';
import { bodyOf } from '../../../protos/resource-field.js';
import { parseResourceLocator } from '../../../protos/resource-locator.js';
import { nameOf } from '../../support/federation-driver.js';
import { encode } from './envoy-messages.js';
import type { Fields } from './envoy-messages.js';
import { cases, sockets, type } from './payload-name-cases.js';
import type { Ref } from './payload-name-cases.js';

const prefix = 'type.googleapis.com/';
const refTo =
  (authority: string): Ref =>
  (resourceType) =>
    `xdstp://${authority}/${resourceType}/x`;
const short = 'o';
const long = `${'long.'.repeat(40)}example`;

function rewritten(typeName: string, value: Uint8Array, rewrite: NameRewrite): RewrittenPayload {
  const result = rewritePayloadNames(prefix + typeName, value, rewrite);
  if (!result.ok) {
    throw new Error(result.error.message);
  }
  return result.value;
}

const unchanged: NameRewrite = { ownName: null, reference: (text) => text };

t.test('every reference of the table is rewritten, and no other byte', (t) => {
  for (const { title, type: typeName, references, fields } of cases) {
    for (const [from, to] of [
      [short, long],
      [long, short],
    ] as const) {
      const seen: string[] = [];
      const result = rewritten(typeName, encode(typeName, fields(refTo(from))), {
        ownName: null,
        reference: (text, resourceType) => {
          seen.push(text);
          t.equal(text, refTo(from)(resourceType), `${title} refers to a ${resourceType}`);
          return refTo(to)(resourceType);
        },
      });
      t.ok(Buffer.compare(result.value, encode(typeName, fields(refTo(to)))) === 0, title);
      t.equal(seen.length, references, `${title}: number of references`);
    }
  }
  t.end();
});

t.test(
  'every reference of the table is found in any spelling, by the type that it refers to',
  (t) => {
    for (const { title, type: typeName, references, fields } of cases) {
      const types = new Map<string, string>();
      const value = encode(
        typeName,
        fields((resourceType) => {
          const text = `${types.size}`;
          types.set(text, resourceType);
          return text;
        }),
      );
      let found = 0;
      for (const resourceType of new Set(types.values())) {
        const names = [...referencesIn(prefix + typeName, value, prefix + resourceType)];
        // Some cases have one more reference, which is not of the form of the others.
        const numbered = names.filter((name) => name !== 'plain');
        found += numbered.length;
        for (const name of numbered) t.equal(types.get(name), resourceType, title);
      }
      t.equal(found, references, `${title}: number of references`);
    }
    t.strictSame([...referencesIn(`${prefix}unknown.Type`, Buffer.from('abc'), prefix)], []);
    const nameless = encode(type.scopedRoute, { name: 'a', route_configuration_name: '' });
    t.strictSame([...referencesIn(prefix + type.scopedRoute, nameless, prefix + type.route)], []);
    t.end();
  },
);

t.test('a reference with #alt= loses its fragment, and no other byte changes (TP1 alt)', (t) => {
  const withAlternative: Ref = (resourceType) =>
    `${refTo('a')(resourceType)}#alt=${refTo('b')(resourceType)}`;
  const own = nameOf('xdstp://own/x/y');
  for (const { title, type: typeName, references, fields } of cases) {
    const projected = project(own, prefix + typeName, encode(typeName, fields(withAlternative)));
    if (!projected.ok) throw new Error(projected.reason);
    const { field, alternatives = [] } = projected.projection;
    const expected = rewritten(typeName, encode(typeName, fields(refTo('a'))), {
      ...unchanged,
      ownName: own.key,
    });
    t.ok(Buffer.compare(bodyOf(field), expected.value) === 0, title);
    t.equal(alternatives.length, references, `${title}: each is recorded`);
    for (const { name, alternatives: those } of alternatives) {
      t.equal(name.key, refTo('a')(name.resourceType));
      t.strictSame(
        those.map((one) => one.name.key),
        [refTo('b')(name.resourceType)],
      );
    }
  }
  t.end();
});

t.test('every type of the table has its case', (t) => {
  const bytes = Buffer.concat(cases.map((each) => encode(each.type, each.fields(refTo('a')))));
  for (const name of payloadShapes.keys()) {
    const tested = cases.some((each) => each.type === name) || bytes.includes(name);
    t.ok(tested, name);
  }
  t.end();
});

t.test('the own name is field 1 of its types, replaced or inserted', (t) => {
  for (const typeName of ownNameTypes) {
    const field = typeName === type.assignment ? 'cluster_name' : 'name';
    const before = encode(typeName, { [field]: 'xdstp://a/T/x' });
    for (const ownName of ['xdstp://b/T/y?z=1', `xdstp://${long}/T/x#alt=xdstp://c/T/x`, 'short']) {
      const after = encode(typeName, { [field]: ownName });
      const rewrite = { ...unchanged, ownName };
      t.same(Buffer.from(rewritten(typeName, before, rewrite).value), Buffer.from(after));
      t.same(
        Buffer.from(rewritten(typeName, new Uint8Array(0), rewrite).value),
        Buffer.from(after),
      );
      t.equal(rewritten(typeName, before, rewrite).ownName, ownName);
      t.equal(ownNameOf(prefix + typeName, after), ownName);
    }
    t.equal(ownNameOf(prefix + typeName, new Uint8Array(0)), '');
  }
  t.end();
});

t.test('own name and references change together, in one pass', (t) => {
  const cluster = (name: string, service: string): Uint8Array =>
    encode(type.cluster, { name, type: 3, eds_cluster_config: { service_name: service } });
  const result = rewritten(type.cluster, cluster('xdstp://a/C/x', 'xdstp://a/E/x'), {
    ownName: 'xdstp://b/C/x',
    reference: () => 'xdstp://b/E/xyz',
  });
  t.same(Buffer.from(result.value), Buffer.from(cluster('xdstp://b/C/x', 'xdstp://b/E/xyz')));
  t.equal(result.edsName, 'xdstp://b/E/xyz');
  t.end();
});

t.test('the EDS name is the service name, or the cluster name of an EDS cluster', (t) => {
  const edsName = (fields: Fields, ownName: string | null = null): string | undefined =>
    rewritten(type.cluster, encode(type.cluster, fields), { ...unchanged, ownName }).edsName;
  const withService = { name: 'c', eds_cluster_config: { service_name: 's' } };
  t.equal(edsName({ ...withService, type: 3 }), 's');
  t.equal(edsName({ ...withService, type: 0 }), undefined, 'a static cluster has no assignment');
  t.equal(edsName({ ...withService, type: 1 }), undefined, 'nor does one with DNS discovery');
  t.equal(edsName({ name: 'c', type: 3 }), 'c');
  t.equal(
    edsName({ name: 'c', type: 3, eds_cluster_config: {} }, 'xdstp://b/C/x'),
    'xdstp://b/C/x',
  );
  t.equal(edsName({ name: 'c' }), undefined);
  t.end();
});

t.test('an unchanged payload is returned as the same object', (t) => {
  const noReference: NameRewrite = {
    ownName: null,
    reference: () => {
      throw new Error('an old-style name is none of ours');
    },
  };
  const plain = encode(type.cluster, { name: 'c', eds_cluster_config: { service_name: 's' } });
  t.equal(rewritten(type.cluster, plain, noReference).value, plain);
  t.equal(rewritten(type.cluster, plain, { ...noReference, ownName: 'c' }).value, plain);
  const same = encode(type.cluster, { name: 'c', eds_cluster_config: { service_name: 'xdstp:' } });
  t.equal(rewritten(type.cluster, same, unchanged).value, same);
  const within = encode(type.cluster, { eds_cluster_config: { service_name: 'not-xdstp://a' } });
  t.equal(rewritten(type.cluster, within, noReference).value, within);
  const opaque = Buffer.from('xdstp://a/T/x');
  const other = rewritten('some.other.Type', opaque, { ...noReference, ownName: 'x' });
  t.same([other.value === opaque, other.ownName, other.edsName], [true, undefined, undefined]);
  t.end();
});

/** A length-delimited field with a number below 16. */
function field(number: number, value: Uint8Array): Buffer {
  const length = [];
  let rest = value.length;
  for (; rest > 127; rest >>>= 7) {
    length.push((rest & 127) | 128);
  }
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length, rest]), value]);
}

t.test('unknown fields, groups, order and repeated fields are kept byte for byte', (t) => {
  const unknown = Buffer.from('fa3e0178f83e01fd3e01020304f93e0102030405060708', 'hex');
  const group = Buffer.from('fb3e0b08010cfc3e', 'hex');
  const eds = (name: string): Buffer => field(3, field(2, Buffer.from(name)));
  const build = (name: string, own: string): Buffer =>
    Buffer.concat([eds(name), unknown, field(1, Buffer.from(own)), group, eds(name), unknown]);
  const result = rewritten(type.cluster, build('xdstp://a', 'n'), {
    ownName: 'name',
    reference: () => 'xdstp://bcd',
  });
  t.same(result.value, build('xdstp://bcd', 'name'));
  t.end();
});

t.test('malformed messages are an error, not an exception', (t) => {
  const bad = ['0a', '0a05', '00', '08', 'ffffffffffffffffffffff', '0c', '0b', '0b14', '0d0000'];
  bad.push('0affffffff0f', '0a01ff', '1a0712', '0e', '0b'.repeat(200));
  for (const hex of bad) {
    const value = Buffer.from(hex, 'hex');
    const result = rewritePayloadNames(prefix + type.cluster, value, unchanged);
    t.match(result, { ok: false, error: { code: 'malformed' } }, hex);
    t.equal(ownNameOf(prefix + type.cluster, value), undefined);
  }
  const inside = field(3, Buffer.concat([field(2, Buffer.from('xdstp:')), Buffer.from([0])]));
  const badText = field(3, field(2, Buffer.from('xdstp:\xff', 'latin1')));
  for (const value of [inside, badText]) {
    const result = rewritePayloadNames(prefix + type.cluster, value, unchanged);
    t.match(result, { ok: false, error: { code: 'malformed' } });
  }
  t.end();
});

t.test('nesting is bounded, and many names cost linear time', (t) => {
  const tap = `${prefix}${sockets}.tcp_stats.v3.Config`;
  let socket = field(3, Buffer.from('xdstp:'));
  for (let depth = 0; depth < 60; depth += 1) {
    const value = field(1, socket);
    socket = field(3, Buffer.concat([field(1, Buffer.from(tap)), field(2, value)]));
  }
  const cluster = Buffer.concat([Buffer.from([0xc2, 0x01]), field(1, socket).subarray(1)]);
  const result = rewritePayloadNames(prefix + type.cluster, cluster, unchanged);
  t.match(result, { ok: false, error: { code: 'too-deep' } });

  const names = Buffer.concat(Array<Buffer>(50_000).fill(field(1, Buffer.from('xdstp:'))));
  const wide = field(3, field(3, names));
  const started = process.cpuUsage();
  t.ok(rewritePayloadNames(prefix + type.listener, wide, unchanged).ok);
  t.ok(process.cpuUsage(started).user < 2_000_000, 'under 2 s of CPU for 50,000 names');
  t.end();
});

t.test('a payload has at most 10,000 references', (t) => {
  const action = field(1, Buffer.from('xdstp://a/envoy.config.cluster.v3.Cluster/b'));
  const host = field(2, field(3, field(2, action)));
  const routes = (count: number): Buffer => Buffer.concat(Array<Buffer>(count).fill(host));
  t.ok(rewritePayloadNames(prefix + type.route, routes(10_000), unchanged).ok);
  t.match(rewritePayloadNames(prefix + type.route, routes(10_001), unchanged), {
    ok: false,
    error: { code: 'too-many', message: /more than 10000 references/ },
  });
  t.end();
});

t.test(
  'arbitrary and damaged bytes never throw, and the output of damaged bytes is not worse',
  (t) => {
    const valid = cases.map(
      (each) => [each.type, encode(each.type, each.fields(refTo('a')))] as const,
    );
    const damaged = fc
      .tuple(fc.constantFrom(...valid), fc.nat(), fc.integer({ min: 0, max: 255 }), fc.boolean())
      .map(([[name, bytes], at, byte, cut]) => {
        const copy = Buffer.from(bytes);
        copy[at % copy.length] = byte;
        return [name, cut ? copy.subarray(0, at % copy.length) : copy] as const;
      });
    const noise = fc.tuple(
      fc.constantFrom(...payloadShapes.keys()),
      fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
    );
    const rewrite: NameRewrite = {
      ownName: 'xdstp://new/T/own',
      reference: (text) => `${text}-new`,
    };
    const identity: NameRewrite = { ownName: null, reference: (text) => text };
    fc.assert(
      fc.property(fc.oneof({ weight: 3, arbitrary: damaged }, noise), ([name, bytes]) => {
        const first = rewritePayloadNames(prefix + name, bytes, rewrite);
        const same = rewritePayloadNames(prefix + name, bytes, identity);
        if (!first.ok) {
          return true;
        }
        const again = rewritePayloadNames(prefix + name, first.value.value, identity);
        return same.ok && same.value.value === bytes && again.ok;
      }),
      { numRuns: 15_000 },
    );
    t.pass();
    t.end();
  },
);

t.test('a text that ends within its scheme is not a reference, whatever bytes follow', (t) => {
  // ScopedRouteConfiguration.route_configuration_name is "x"; the next bytes read "dstp:".
  const bytes = Buffer.from('120178647374703a', 'hex');
  const references: string[] = [];
  const reference = (text: string): string => {
    references.push(text);
    return text;
  };
  const result = rewritePayloadNames(prefix + type.scopedRoute, bytes, {
    ownName: null,
    reference,
  });
  t.match(result, { ok: false, error: { code: 'malformed' } });
  t.strictSame(references, []);
  t.end();
});

t.test('a reference that need not be asked for is one that would stay', (t) => {
  const id = fc.string({
    unit: fc.constantFrom('a', 'Z', '/', '-', '*', '%41', '%2F', '%', '?', '=', '&', '#', 'é', ' '),
    maxLength: 6,
  });
  const start = fc.constantFrom(
    'xdstp://a/T/',
    'xdstp://b/T/',
    'xdstp://%61/T/',
    'xdstp:a/T/',
    'x',
  );
  const names = fc.array(
    fc.tuple(start, id).map((parts) => parts.join('')),
    { maxLength: 8 },
  );
  const canonical = (text: string): string => {
    const parsed = parseResourceLocator(text);
    return parsed.ok ? parsed.value.name.key : text;
  };
  let kept = 0;
  fc.assert(
    fc.property(names, (all) => {
      const value = encode(type.route, {
        virtual_hosts: all.map((cluster) => ({ routes: [{ route: { cluster } }] })),
      });
      const rewrite = (keepsCanonical: boolean) => {
        const asked: string[] = [];
        const reference = (text: string): string => {
          asked.push(text);
          return canonical(text);
        };
        const result = rewritten(type.route, value, { ownName: null, reference, keepsCanonical });
        return { bytes: Buffer.from(result.value), asked };
      };
      const [fast, slow] = [rewrite(true), rewrite(false)];
      kept += slow.asked.length - fast.asked.length;
      return fast.bytes.equals(slow.bytes);
    }),
    { numRuns: 500 },
  );
  t.ok(kept > 0, `${kept} were kept`);
  t.end();
});
