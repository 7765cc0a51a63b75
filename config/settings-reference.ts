/** Renders `docs/SETTINGS.md` and `--help` from the table of settings. */
import { SETTING_FORMATS } from './setting-formats.js';
import {
  environmentName,
  flagName,
  SETTING_OPTIONS,
  type SettingOption,
} from './setting-options.js';

const SECTION_TITLES: Readonly<Record<string, string>> = {
  '': 'General',
  client: 'Clients',
  admin: 'Admin server',
  probe: 'Probe server',
  node: 'Node',
  log: 'Log',
  traces: 'Traces',
  nats: 'Peer instances',
  resolution: 'Redirects and lists',
  limits: 'Limits',
};

/** The text of docs/SETTINGS.md. */
export function settingsReference(): string {
  const sections = [...bySection()].map(([section, options]) => {
    const rows = options.map(
      (option) =>
        `| \`${option.key}\` | ${formatWords(option)} | ${defaultWords(option, true)} | ${option.doc} | \`--${flagName(option.key)}\` \`${environmentName(option.key)}\` |`,
    );
    const head = '| Key | Value | Default | Meaning | Flag and variable |\n|---|---|---|---|---|';
    return `## ${SECTION_TITLES[section] ?? section}\n\n${head}\n${rows.join('\n')}\n`;
  });
  return `${INTRODUCTION}\n${sections.join('\n')}`;
}

const INTRODUCTION = `# Settings

<!-- Generated from config/setting-options.ts; a test keeps the two equal. -->

Settings of the gateway process. The authority map defines the control planes and their authorities.

Settings come from four places. From lowest to highest precedence: defaults, the settings file (\`--settings FILE\` or \`TRIBUTARY_SETTINGS\`; YAML or JSON), the environment, flags.
In the file, the key \`a.b\` is \`b\` in the section \`a\`. Relative paths in the file are relative to the file; all other relative paths are relative to the working directory.
Durations and sizes need a unit: \`30s\`, \`500ms\`, \`2MiB\`. Unknown keys and flags are errors. The gateway reports all errors at once.
`;

/** The text of `--help`. */
export function helpText(): string {
  const lines = [
    'Usage: tributary --authority-map FILE [flags]',
    '',
    '  --settings FILE',
    '      Settings file, YAML or JSON (TRIBUTARY_SETTINGS).',
  ];
  for (const option of SETTING_OPTIONS) {
    const value = option.format === 'flag' ? '' : ` ${placeholder(option)}`;
    const fallback = defaultWords(option, false);
    const ending = fallback === 'none' ? '' : ` Default ${fallback}.`;
    lines.push(
      `  --${flagName(option.key)}${value}`,
      `      ${option.doc.replaceAll('`', '')}${ending} (${environmentName(option.key)})`,
    );
  }
  lines.push('  --help, --version', '      Print this help, or the version.', '');
  return lines.join('\n');
}

/** A setting on the command line, for shell completion. */
export interface SettingFlag {
  /** Without the dashes. */
  readonly name: string;
  /** What to write after it; absent: nothing. */
  readonly value?: string;
  readonly meaning: string;
}

/** All flags of the gateway process. */
export function settingFlags(): readonly SettingFlag[] {
  const settings = SETTING_OPTIONS.map((option) => ({
    name: flagName(option.key),
    ...(option.format === 'flag' ? {} : { value: placeholder(option) }),
    meaning: option.doc.replaceAll('`', ''),
  }));
  const file = { name: 'settings', value: 'FILE', meaning: 'Settings file, YAML or JSON.' };
  return [file, ...settings, { name: 'help', meaning: 'Prints all settings.' }];
}

function bySection(): ReadonlyMap<string, readonly SettingOption[]> {
  const sections = new Map<string, SettingOption[]>();
  for (const option of SETTING_OPTIONS) {
    const dot = option.key.indexOf('.');
    const section = dot === -1 ? '' : option.key.slice(0, dot);
    const options = sections.get(section) ?? [];
    options.push(option);
    sections.set(section, options);
  }
  return sections;
}

function formatWords(option: SettingOption): string {
  return SETTING_FORMATS[option.format].words;
}

function defaultWords(option: SettingOption, markdown: boolean): string {
  if (option.defaultWords !== undefined)
    return markdown ? option.defaultWords : option.defaultWords.replaceAll('`', '');
  if (option.default === null) return 'none';
  const shown = SETTING_FORMATS[option.format].show(option.default);
  return markdown ? `\`${shown}\`` : shown;
}

function placeholder(option: SettingOption): string {
  const words: Partial<Record<SettingOption['format'], string>> = {
    path: 'FILE',
    'tcp-port': 'PORT',
    duration: 'DURATION',
    'duration-or-zero': 'DURATION',
    size: 'SIZE',
    'max-message': 'SIZE',
    count: 'COUNT',
    percent: 'PERCENT',
    hops: 'COUNT',
    'list-entries': 'COUNT',
    json: 'JSON',
  };
  return words[option.format] ?? 'VALUE';
}
