/** Renders docs/MAP.md from the schema of the authority map and from `MAP_EXAMPLES`. */
import { MAP_EXAMPLES } from './map-examples.js';
import { authorityMapSchema } from './map-schema.js';

interface Property {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly items?: Property;
  readonly $ref?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, Property>>;
}

const INTRODUCTION = `# The authority map

<!-- Generated from config/authority-map.schema.json and config/map-examples.ts by \`npm run references\`; a test
keeps them equal. -->

Every key of the authority map, section by section. \`tributary validate FILE\` checks a file against them and
reports each mistake with its line. Durations and sizes need a unit: \`30s\`, \`500ms\`, \`2MiB\`. Keys in Envoy's own
sections may also be written in camelCase, as in its JSON.
`;

/** The text of docs/MAP.md. */
export function mapReference(): string {
  const schema = authorityMapSchema() as unknown as Property;
  const own = Object.keys(MAP_EXAMPLES).map((name) => section(name, definition(name)));
  const envoy = ENVOY_SECTIONS.map((name) => section(name, definition(name)));
  const parts = [
    INTRODUCTION,
    `## The map\n\n${table(schema)}`,
    ...own,
    `## Envoy's own forms\n\nA \`config_source\`, an entry of \`config_sources\` and a cluster take Envoy's messages unchanged. These are the fields
that mean something here; \`tributary validate\` names the others. [Five maps to start from](guides/first-maps.md) has
an example.\n`,
    ...envoy.map((text) => text.replace(/^## /, '### ')),
  ];
  return parts.join('\n');
}

/** Definitions of the schema in Envoy's form, without an example of each key. */
const ENVOY_SECTIONS = [
  'NamedConfigSource',
  'ConfigSource',
  'ApiConfigSource',
  'PathConfigSource',
  'GrpcService',
  'EnvoyGrpc',
  'GoogleGrpc',
  'ChannelCredentials',
  'SslCredentials',
  'DataSource',
];

/** The keys of a definition, as people write them: without the spellings of JSON. */
export function keysOf(name: string): readonly string[] {
  return Object.keys(definition(name).properties ?? {}).filter(isWritten);
}

const isWritten = (key: string): boolean => !/[A-Z]/.test(key);

function definition(name: string): Property {
  return resolved(`#/$defs/${name}`);
}

function resolved(reference: string): Property {
  let at: unknown = authorityMapSchema();
  for (const step of reference.split('/').slice(1)) at = (at as Record<string, unknown>)[step];
  return at as Property;
}

function section(name: string, written: Property): string {
  const example = MAP_EXAMPLES[name];
  const isFirst = Object.keys(MAP_EXAMPLES).find((key) => MAP_EXAMPLES[key] === example) === name;
  const shown = example === undefined || !isFirst ? '' : `\n\`\`\`yaml\n${example}\`\`\`\n`;
  return `## ${name}\n\n${written.description ?? ''}\n\n${table(written)}${shown}`;
}

function table({ properties = {} }: Property): string {
  const rows = Object.entries(properties)
    .filter(([key]) => isWritten(key))
    .map(([key, property]) => {
      const target = property.$ref === undefined ? {} : resolved(property.$ref);
      const { description = '', default: fallback } = { ...target, ...property };
      const meaning = description.replaceAll('|', '\\|').replaceAll('\n', ' ');
      const value =
        fallback === undefined ? '' : `\`${JSON.stringify(fallback).replaceAll('"', '')}\``;
      return `| \`${key}\` | ${typeWords(property)} | ${value} | ${meaning} |`;
    });
  return `| Key | Value | Default | Meaning |\n|---|---|---|---|\n${rows.join('\n')}\n`;
}

function typeWords(property: Property): string {
  const { $ref, type, items, enum: choices } = property;
  if ($ref !== undefined) {
    const name = $ref.split('/').at(-1) ?? '';
    const isDefinition = $ref.split('/').length === 3;
    if (!isDefinition) return typeWords(resolved($ref));
    return SECTIONS.has(name) ? `[${name}](#${name.toLowerCase()})` : name;
  }
  if (choices) return choices.map((choice) => `\`${String(choice)}\``).join(', ');
  const names = typeof type === 'string' ? [type] : (type ?? ['any']);
  const words = names.map((name) => TYPE_WORDS[name] ?? name).join(' or ');
  return items ? `${words}: ${typeWords(items)}` : words;
}

/** JSON Schema's names of types → words. */
const TYPE_WORDS: Readonly<Record<string, string>> = {
  array: 'list',
  boolean: '`true` or `false`',
  integer: 'whole number',
  object: 'map',
  string: 'text',
};

const SECTIONS: ReadonlySet<string> = new Set([...Object.keys(MAP_EXAMPLES), ...ENVOY_SECTIONS]);
