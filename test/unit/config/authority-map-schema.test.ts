/**
 * Goal: the published schema, the model, the defaults and the documentation cannot drift apart.
 * Method: compare them with one another.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import t, { type Test } from 'tap';
import { parseAuthorityMap } from '../../../config/authority-map.js';
import {
  DEFAULT_FAILOVER,
  DEFAULT_MAX_RECEIVE_BYTES,
  DEFAULT_RATE_LIMIT,
  DEFAULT_TIMERS,
  settingKey,
  toCamelCase,
} from '../../../config/defaults.js';
import {
  formatDuration,
  formatSize,
  parseDuration,
  parseSize,
  roundedDuration,
} from '../../../config/durations.js';
import { authorityMapSchema } from '../../../config/map-schema.js';
import { formatProblem } from '../../../config/problems.js';

interface Property {
  readonly description?: string;
  readonly default?: unknown;
  readonly $ref?: string;
}
interface Definition {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Property>>;
}

const definitions = authorityMapSchema()['$defs'] as Readonly<Record<string, Definition>>;

function properties(name: string): Readonly<Record<string, Property>> {
  return definitions[name]?.properties ?? {};
}

/** The schema has exactly the fields of `defaults`, each described with its unit and default. */
function compare(
  t: Test,
  definition: string,
  defaults: object,
  others: readonly string[] = [],
): void {
  const schema = properties(definition);
  const fields = Object.entries(defaults).filter(([, value]) => typeof value !== 'object');
  t.strictSame(
    Object.keys(schema).sort(),
    [...fields.map(([field]) => settingKey(field)), ...others].sort(),
  );
  for (const [field, value] of fields as (readonly [string, string | number])[]) {
    const property = schema[settingKey(field)];
    const written = property?.default;
    const isDuration = field.endsWith('Ms');
    const read = isDuration && typeof written === 'string' ? parseDuration(written) : undefined;
    t.equal(read?.ok === true ? read.value : written, value, `${definition}.${field}: default`);
    t.match(
      property?.description,
      new RegExp(`Default ${String(written)}\\.$`),
      `${field}: default in words`,
    );
    const unit = isDuration
      ? 'A duration'
      : typeof value === 'number'
        ? 'A (count|number)'
        : 'One of';
    t.match(property?.description, new RegExp(unit), `${field}: unit in words`);
  }
}

t.test('every timer of a source is in the schema, with its unit and its default', (t) => {
  compare(t, 'Timers', DEFAULT_TIMERS);
  t.end();
});

t.test(
  'every field of the failover policy is in the schema, with its unit and its default',
  (t) => {
    compare(t, 'Failover', DEFAULT_FAILOVER, ['use_alternative_when', 'deletion_guard']);
    compare(t, 'DeletionGuard', DEFAULT_FAILOVER.deletionGuard);
    t.match(properties('Failover')['use_alternative_when']?.description, /Default unreachable\.$/);
    t.end();
  },
);

t.test('the other defaults of the schema equal those of the code', (t) => {
  t.strictSame(parseSize(String(properties('Source')['max_receive']?.default)), {
    ok: true,
    value: DEFAULT_MAX_RECEIVE_BYTES,
  });
  t.equal(properties('RateLimitSettings')['max_tokens']?.default, DEFAULT_RATE_LIMIT.maxTokens);
  t.equal(
    properties('RateLimitSettings')['fill_rate']?.default,
    DEFAULT_RATE_LIMIT.fillRatePerSecond,
  );
  t.end();
});

t.test('the schema is valid in its own dialect, JSON Schema 2020-12', (t) => {
  const ajv = new Ajv2020({ strict: false });
  t.ok(ajv.validateSchema(authorityMapSchema()), ajv.errorsText());
  t.notOk(ajv.validateSchema({ ...authorityMapSchema(), type: 'map' }));
  t.end();
});

t.test('everything in the schema has a description, or refers to something that has one', (t) => {
  for (const [name, definition] of Object.entries(definitions)) {
    for (const [key, property] of Object.entries(definition.properties ?? {})) {
      const target = definitions[property.$ref?.replace('#/$defs/', '') ?? ''];
      const isAlias = property.$ref?.includes('/properties/') === true;
      t.ok(property.description ?? target?.description ?? isAlias, `${name}.${key}`);
    }
  }
  t.end();
});

t.test('every field of an Envoy message may be spelled in lowerCamelCase (proto3 JSON)', (t) => {
  const messages = Object.entries(definitions).filter(([, { description }]) =>
    /^envoy\.config/.test(description ?? ''),
  );
  t.ok(messages.length >= 10);
  for (const [name, definition] of messages) {
    for (const key of Object.keys(definition.properties ?? {})) {
      t.ok(Object.hasOwn(definition.properties ?? {}, toCamelCase(key)), `${name}.${key}`);
    }
  }
  t.end();
});

t.test('formatted durations and sizes parse back to the same value', (t) => {
  for (const ms of [0, 1, 500, 1_500, 30_000, 300_000, 86_400_000]) {
    t.strictSame(parseDuration(formatDuration(ms)), { ok: true, value: ms });
  }
  for (const bytes of [0, 1, 1_024, 2_097_152]) {
    t.strictSame(parseSize(formatSize(bytes)), { ok: true, value: bytes });
  }
  t.strictSame(parseDuration('1.5s'), { ok: true, value: 1_500 });
  t.end();
});

t.test('every authority map in docs/, README and examples/ is accepted', (t) => {
  const root = new URL('../../../../', import.meta.url);
  const maps = new Map<string, string>();
  for (const directory of ['./', 'docs/', 'examples/']) {
    const url = new URL(directory, root);
    if (!existsSync(url)) continue;
    const recursive = directory !== './';
    for (const name of readdirSync(url, { recursive, encoding: 'utf8' })) {
      if (name.includes('node_modules')) continue;
      if (name.endsWith('.md')) {
        const blocks = readFileSync(new URL(name, url), 'utf8').matchAll(
          /```ya?ml\n([\s\S]*?)```/g,
        );
        [...blocks].forEach(([, text = ''], index) =>
          maps.set(`${directory}${name}#${index}`, text),
        );
      } else if (/\.ya?ml$/.test(name))
        maps.set(directory + name, readFileSync(new URL(name, url), 'utf8'));
    }
  }
  for (const [name, text] of maps) {
    if (!/^authorities:|^config_sources:/m.test(text)) continue;
    // An Envoy bootstrap has config_sources too.
    if (/^(static_resources|dynamic_resources|default_config_source):/m.test(text)) continue;
    const result = parseAuthorityMap(text, { file: `/${name}` });
    t.strictSame(result.ok ? [] : result.problems.map(formatProblem), [], name);
  }
  t.end();
});

t.test('a measured duration has two units at most', (t) => {
  const shown = [0, 797.9, 59_949, 59_950, 3_599_499, 3_599_500, 86_369_499, 86_370_000, 2e8];
  t.strictSame(shown.map(roundedDuration), [
    '0.0s',
    '0.8s',
    '59.9s',
    '1m 0s',
    '59m 59s',
    '1h 0m',
    '23h 59m',
    '1d 0h',
    '2d 8h',
  ]);
  t.end();
});
