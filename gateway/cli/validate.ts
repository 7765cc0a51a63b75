/** Checks an authority map, the files that it names, and the settings if they are given. */
import { resolve } from 'node:path';
import { directoryProblems } from '../../authorities/index.js';
import { loadAuthorityMap } from '../../config/authority-map.js';
import { formatProblem } from '../../config/problems.js';
import type { AuthorityMap } from '../../config/model.js';
import { isOpenToOthers, loadSettings, type Settings } from '../../config/settings.js';
import { identityWarnings } from '../../config/unmatched-rules.js';
import { type Arguments, EXIT, type ExitCode, type Shell } from './command.js';
import { printed } from './output.js';

/** Prints every problem and warning of the map, or a summary. */
export function validateMap(given: Arguments, shell: Shell): ExitCode {
  const [file = ''] = given.positionals;
  const checked = checkMap(file, shell.env, given.text('settings'));
  const isText = (given.text('output') ?? 'text') === 'text';
  if (!isText) shell.out(printed(checked.told, given));
  else {
    for (const warning of checked.told.warnings) shell.err(`warning: ${warning}\n`);
    for (const problem of checked.told.problems) shell.err(`${problem}\n`);
    if (checked.told.valid) shell.out(checked.summary);
  }
  return checked.told.valid ? EXIT.ok : EXIT.no;
}

interface Checked {
  readonly told: {
    readonly file: string;
    readonly valid: boolean;
    /** As the text form prints them. */
    readonly problems: readonly string[];
    readonly warnings: readonly string[];
  };
  /** One line; empty for an invalid map. */
  readonly summary: string;
}

/** @param settingsFile absent: the settings are not checked */
function checkMap(file: string, env: Shell['env'], settingsFile?: string): Checked {
  const loaded = loadAuthorityMap(file, 'problem');
  const flags = settingsFile === undefined ? [] : ['--settings', settingsFile];
  const read = loadSettings({ argv: ['--authority-map', file, ...flags], env });
  const ofSettings = settingsFile === undefined || read.ok ? [] : read.problems.map(formatProblem);
  if (!loaded.ok) {
    const problems = [...loaded.problems.map(formatProblem), ...ofSettings];
    return { told: { file, valid: false, problems, warnings: [] }, summary: '' };
  }
  const problems = directoryProblems(loaded.map).flatMap((directory) =>
    directory.problems.map((problem) => `${problem} (source "${directory.source}")`),
  );
  problems.push(...ofSettings);
  const warnings = loaded.warnings.map(formatProblem);
  if (read.ok) warnings.push(...openness(file, loaded.map, read.settings.client));
  if (read.ok && settingsFile !== undefined) {
    const unfitting = identityWarnings(loaded.map.clients, read.settings.client, file);
    warnings.push(...[...read.warnings, ...unfitting].map(formatProblem));
    warnings.push(...otherMap(file, settingsFile));
  }
  const { authorities, sources, oldStyle, defaultSource } = loaded.map;
  const entries = oldStyle
    ? `, old-style names from ${counted(oldStyle.servedBy.length, 'entry', 'entries')}`
    : '';
  const others = defaultSource
    ? `, all other names from ${defaultSource.sources.join(', then ')}`
    : '';
  const counts = [
    counted(authorities.size, 'authority', 'authorities'),
    counted(sources.size, 'source', 'sources'),
  ].join(', ');
  return {
    told: { file, valid: problems.length === 0, problems, warnings },
    summary: `${file}: valid, ${counts}${entries}${others}\n`,
  };
}

const counted = (count: number, one: string, many: string): string =>
  `${count} ${count === 1 ? one : many}`;

/** Warns of settings that name another map than the one that is checked. */
function otherMap(file: string, settingsFile: string): readonly string[] {
  const read = loadSettings({ argv: ['--settings', settingsFile], env: {} });
  if (!read.ok || resolve(read.settings.authorityMap) === resolve(file)) return [];
  const named = read.settings.authorityMap;
  return [`${settingsFile}: authority_map: names ${named}, and this command checked ${file}`];
}

/** Warns of a gateway that is open to everybody, with the settings that it would have in this environment. */
function openness(
  file: string,
  { clients }: AuthorityMap,
  client: Settings['client'],
): readonly string[] {
  if (clients || !isOpenToOthers(client)) return [];
  return [`${file}: every client may ask for everything (write clients, or client.tls.client_ca)`];
}
