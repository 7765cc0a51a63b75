/**
 * Reads settings from the file, the environment and flags. Each reader is strict and locates its
 * problems.
 */
import { didYouMean, nearestWord } from './nearest.js';
import { otherFileAs } from './other-files.js';
import type { Path, Problem } from './problems.js';
import { SETTING_FORMATS, type SettingFormatName } from './setting-formats.js';
import {
  environmentName,
  flagName,
  SETTING_OPTIONS,
  type SettingOption,
} from './setting-options.js';
import { readDocuments, type PositionedDocument } from './yaml-positions.js';

export interface SettingValue {
  readonly value: unknown;
  readonly format: SettingFormatName;
  readonly place: Pick<Problem, 'file' | 'line' | 'column'>;
}

/** The settings of one source. */
export interface SettingValues {
  readonly kind: 'file' | 'environment' | 'flags';
  /** Setting key → valid value. */
  readonly values: ReadonlyMap<string, SettingValue>;
  /** Keys that the source sets, with valid or invalid values. */
  readonly mentioned: ReadonlySet<string>;
  readonly problems: readonly Problem[];
}

/** Flags that the CLI handles before the settings. `true`: the flag takes a value. */
const PROCESS_FLAGS: ReadonlyMap<string, boolean> = new Map([
  ['settings', true],
  ['help', false],
  ['version', false],
]);

/**
 * The path in `--settings` or `TRIBUTARY_SETTINGS`, unresolved. The flag wins; of several flags the
 * last.
 */
export function settingsFileOf(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const last = argv.findLastIndex((argument) => /^--settings(=|$)/.test(argument));
  if (last === -1) return env['TRIBUTARY_SETTINGS'];
  const argument = argv[last] ?? '';
  return argument.includes('=') ? argument.slice(argument.indexOf('=') + 1) : argv[last + 1];
}

class Collector {
  readonly values = new Map<string, SettingValue>();
  readonly mentioned = new Set<string>();
  readonly problems: Problem[] = [];

  /** @param problem builds a problem at the place of the value */
  take(
    option: SettingOption,
    value: unknown,
    problem: (message: string, remedy?: string) => Problem,
  ): void {
    this.mentioned.add(option.key);
    const read = SETTING_FORMATS[option.format].read(value);
    const place = problem('');
    if (read.ok) this.values.set(option.key, { value: read.value, format: option.format, place });
    else this.problems.push(problem(read.message, read.remedy));
  }

  said(kind: SettingValues['kind']): SettingValues {
    const { values, mentioned, problems } = this;
    return { kind, values, mentioned, problems };
  }
}

/** Reads a YAML or JSON settings file. Its sections are those of docs/SETTINGS.md. */
export function readSettingsFile(text: string, file: string): SettingValues {
  const collector = new Collector();
  const { documents, isPartial, problems } = readDocuments(text, file);
  collector.problems.push(...problems);
  const [document, second] = isPartial ? [] : documents;
  if (second !== undefined)
    collector.problems.push(second.problem([], 'unexpected second document', 'keep one'));
  const other = document && otherFileAs('settings', document.value, file);
  if (document && other) {
    collector.problems.push(document.problem([], other.message, other.remedy));
    collector.mentioned.add('authority_map');
  } else if (document !== undefined && document.value !== null)
    readSection(document, [], document.value, collector);
  return collector.said('file');
}

function readSection(
  document: PositionedDocument,
  path: Path,
  section: unknown,
  collector: Collector,
): void {
  if (typeof section !== 'object' || section === null || Array.isArray(section)) {
    collector.problems.push(document.problem(path, 'must be a map'));
    return;
  }
  const prefix = path.map((step) => `${step}.`).join('');
  for (const [name, value] of Object.entries(section)) {
    const key = prefix + name;
    const at = [...path, name];
    const option = SETTING_OPTIONS.find((candidate) => candidate.key === key);
    if (option !== undefined) {
      collector.take(option, value, (message, remedy) => document.problem(at, message, remedy));
    } else if (SETTING_OPTIONS.some((candidate) => candidate.key.startsWith(`${key}.`))) {
      readSection(document, at, value, collector);
    } else {
      const known = SETTING_OPTIONS.filter((candidate) => candidate.key.startsWith(prefix));
      const siblings = known.map(
        (candidate) => candidate.key.slice(prefix.length).split('.')[0] ?? '',
      );
      collector.problems.push(
        document.problem(at, 'unknown key', didYouMean(name, [...new Set(siblings)]), 'key'),
      );
    }
  }
}

const SERVICE_LINK = 'it is ignored; set enableServiceLinks: false in the pod';

/** Did Kubernetes set this variable for a Service? No port of a setting is such a text. */
export const isServiceLink = (name: string, value: string): boolean =>
  name.endsWith('_PORT') && /^(tcp|udp|sctp):\/\//.test(value);

/**
 * Reads the variables `TRIBUTARY_…`. An unknown variable is only a warning: if a service is called
 * `tributary`, Kubernetes sets `TRIBUTARY_SERVICE_HOST` and the like in every pod of its namespace.
 */
export function readEnvironment(
  env: Readonly<Record<string, string | undefined>>,
): SettingValues & { readonly warnings: readonly Problem[] } {
  const collector = new Collector();
  const warnings: Problem[] = [];
  const byName = new Map(SETTING_OPTIONS.map((option) => [environmentName(option.key), option]));
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith('TRIBUTARY_') || value === undefined || name === 'TRIBUTARY_SETTINGS')
      continue;
    const option = byName.get(name);
    if (isServiceLink(name, value)) {
      // Of a service whose name makes the variable of a setting, such as `tributary-admin`.
      if (option)
        warnings.push(unplaced(name, '', 'is the variable of a Kubernetes Service', SERVICE_LINK));
    } else if (option !== undefined) {
      collector.take(option, value, (message, remedy) =>
        unplaced(name, option.key, message, remedy),
      );
    } else if (!/_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP).*)?$/.test(name)) {
      const flag = name.replace('TRIBUTARY_', '').toLowerCase().replaceAll('_', '-');
      const ofFlag = SETTING_OPTIONS.find(({ key }) => flagName(key) === flag);
      const word = ofFlag ? environmentName(ofFlag.key) : name;
      warnings.push(unplaced(name, '', 'unknown variable', didYouMean(word, [...byName.keys()])));
    }
  }
  return { ...collector.said('environment'), warnings };
}

/** Reads `--flag value` and `--flag=value`; for booleans also `--flag` and `--no-flag`. */
export function readFlags(argv: readonly string[]): SettingValues {
  const collector = new Collector();
  const byName = new Map(SETTING_OPTIONS.map((option) => [flagName(option.key), option]));
  const rest = [...argv];
  for (let argument = rest.shift(); argument !== undefined; argument = rest.shift()) {
    const match = /^--([^=]+)(?:=(.*))?$/s.exec(argument);
    const name = match?.[1];
    if (name === undefined) {
      if (argument !== '-h') {
        const isFile = /\.(ya?ml|json)$/.test(argument);
        const remedy = isFile
          ? `write --authority-map ${argument}, or --settings ${argument}`
          : 'all arguments are flags, see --help';
        if (isFile) collector.mentioned.add('authority_map');
        collector.problems.push(unplaced(argument, '', 'is not a flag', remedy));
      }
      continue;
    }
    const processFlag = PROCESS_FLAGS.get(name);
    if (processFlag !== undefined) {
      if (processFlag && (match?.[2] ?? rest.shift()) === undefined)
        collector.problems.push(unplaced(argument, '', 'needs a value'));
      continue;
    }
    const negated = byName.get(name.replace(/^no-/, ''));
    const option = byName.get(name) ?? (negated?.format === 'flag' ? negated : undefined);
    if (option === undefined) {
      const known = [...byName.keys(), ...PROCESS_FLAGS.keys()].map((flag) => `--${flag}`);
      // The setting that is meant is not missing as well.
      const whole = SETTING_OPTIONS.find(({ key }) => key.replace(/[._]/g, '-') === name);
      const meant = whole ?? byName.get(nearestWord(name, byName.keys()) ?? '');
      if (meant) collector.mentioned.add(meant.key);
      const hint = didYouMean(whole ? `--${flagName(whole.key)}` : `--${name}`, known);
      collector.problems.push(unplaced(`--${name}`, '', 'unknown flag', hint));
      // Skip its value, which would be reported as a second wrong argument.
      if (match?.[2] === undefined && rest[0]?.startsWith('--') === false) rest.shift();
      continue;
    }
    takeFlag(collector, option, name, match?.[2], rest);
  }
  return collector.said('flags');
}

const isTruth = (text: string | undefined): boolean => text === 'true' || text === 'false';

function takeFlag(
  collector: Collector,
  option: SettingOption,
  name: string,
  given: string | undefined,
  rest: string[],
): void {
  const problem = (message: string, remedy?: string): Problem =>
    unplaced(`--${name}`, option.key, message, remedy);
  if (option.format === 'flag') {
    const next = (): string | undefined => (isTruth(rest[0]) ? rest.shift() : 'true');
    const value = given ?? next();
    const isNegated = name !== flagName(option.key) && isTruth(value);
    collector.take(option, isNegated ? String(value !== 'true') : value, problem);
    return;
  }
  const value = given ?? (rest[0]?.startsWith('--') === true ? undefined : rest.shift());
  if (value !== undefined) collector.take(option, value, problem);
  else {
    collector.mentioned.add(option.key);
    collector.problems.push(problem('needs a value'));
  }
}

function unplaced(file: string, field: string, message: string, remedy?: string): Problem {
  const problem = { file, line: 0, column: 0, field, message };
  return remedy === undefined ? problem : { ...problem, remedy };
}
