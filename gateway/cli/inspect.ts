/** `validate` and `explain`: check and explain an authority map, with or without a running gateway. */
import { resolve } from 'node:path';
import { directoryProblems } from '../../authorities/index.js';
import { loadAuthorityMap } from '../../config/authority-map.js';
import { formatProblem } from '../../config/problems.js';
import {
  explainOldStyle,
  oldStyleText,
  type OldStyleExplanation,
} from '../admin/explain-old-style.js';
import { explainOffline, nameFrom, offlineFederation, type Explanation } from '../admin/explain.js';
import { NO_DETAILS } from '../admin/source-details.js';
import { adminAddress, askAdmin, errorOf } from './admin-client.js';
import { readArguments, type Arguments } from './arguments.js';
import { EXIT, UsageError, type ExitCode, type Shell } from './command.js';

export async function validate(argv: readonly string[], shell: Shell): Promise<ExitCode> {
  const { positionals } = readArguments(argv, ['FILE'], {});
  const [file = ''] = positionals;
  const loaded = loadAuthorityMap(file, 'problem');
  if (!loaded.ok) {
    for (const problem of loaded.problems) shell.err(`${formatProblem(problem)}\n`);
    return Promise.resolve(EXIT.no);
  }
  for (const warning of loaded.warnings) shell.err(`warning: ${formatProblem(warning)}\n`);
  const inDirectories = directoryProblems(loaded.map);
  for (const { source, problems } of inDirectories) {
    for (const problem of problems) shell.err(`${problem} (source "${source}")\n`);
  }
  if (inDirectories.length > 0) return Promise.resolve(EXIT.no);
  const { authorities, sources, oldStyle, defaultSource } = loaded.map;
  const entries = oldStyle ? `, old-style names from ${oldStyle.servedBy.length} entries` : '';
  const others = defaultSource
    ? `, all other names from ${defaultSource.sources.join(', then ')}`
    : '';
  const counts = `${authorities.size} authorities, ${sources.size} sources`;
  shell.out(`${file}: valid, ${counts}${entries}${others}\n`);
  return Promise.resolve(EXIT.ok);
}

export async function explain(argv: readonly string[], shell: Shell): Promise<ExitCode> {
  const given = readArguments(argv, ['URN'], {
    'authority-map': 'string',
    admin: 'string',
    offline: 'boolean',
    json: 'boolean',
    type: 'string',
  });
  const [urn = ''] = given.positionals;
  const type = given.text('type');
  if (type !== undefined) return explainOpaque(urn, type, given, shell);
  const named = nameFrom(urn);
  if (!named.ok) {
    shell.err(`${urn}: ${named.message}\n`);
    return EXIT.no;
  }
  const file = given.text('authority-map') ?? shell.env['TRIBUTARY_AUTHORITY_MAP'];
  if (!given.isSet('offline')) {
    const address = adminAddress(given.text('admin'), shell.env);
    const answer = await askAdmin(address, `/explain/${encodeURIComponent(urn)}`);
    if (answer.ok) return tellAnswer(answer.status, answer.value, given, shell);
    if (file === undefined || given.text('admin') !== undefined) {
      shell.err(`${answer.message}\n(--authority-map FILE explains the file without a gateway)\n`);
      return EXIT.unreachable;
    }
    shell.err(`${answer.message}; explaining ${file} without it\n`);
  }
  if (file === undefined) throw new UsageError('--offline needs --authority-map FILE');
  const loaded = loadAuthorityMap(resolve(file));
  if (!loaded.ok) {
    for (const problem of loaded.problems) shell.err(`${formatProblem(problem)}\n`);
    return EXIT.no;
  }
  const explanation = explainOffline(loaded.map, named.name);
  if (explanation) {
    tell(explanation, given, shell, false);
    return EXIT.ok;
  }
  const known = [...loaded.map.authorities.keys()].join(', ');
  shell.err(`no authority "${named.name.authority}" in ${file} (known there: ${known})\n`);
  return EXIT.no;
}

/** Explains an old-style name, which does not contain its type. */
async function explainOpaque(
  text: string,
  type: string,
  given: Arguments,
  shell: Shell,
): Promise<ExitCode> {
  const tell = (explanation: OldStyleExplanation): ExitCode => {
    shell.out(given.isSet('json') ? `${JSON.stringify(explanation)}\n` : oldStyleText(explanation));
    return EXIT.ok;
  };
  if (!given.isSet('offline')) {
    const query = new URLSearchParams({ type }).toString();
    const address = adminAddress(given.text('admin'), shell.env);
    const answer = await askAdmin(address, `/explain/${encodeURIComponent(text)}?${query}`);
    if (answer.ok && answer.status === 200) return tell(answer.value as OldStyleExplanation);
    shell.err(`${answer.ok ? errorOf(answer.value) : answer.message}\n`);
    return answer.ok ? EXIT.no : EXIT.unreachable;
  }
  const file = given.text('authority-map') ?? shell.env['TRIBUTARY_AUTHORITY_MAP'];
  if (file === undefined) throw new UsageError('--offline needs --authority-map FILE');
  const loaded = loadAuthorityMap(resolve(file));
  if (!loaded.ok) {
    for (const problem of loaded.problems) shell.err(`${formatProblem(problem)}\n`);
    return EXIT.no;
  }
  const explanation = explainOldStyle(offlineFederation(loaded.map), text, type, NO_DETAILS);
  if (explanation) return tell(explanation);
  shell.err(`no source in ${file} serves old-style names of type ${type}\n`);
  return EXIT.no;
}

function tellAnswer(status: number, value: unknown, given: Arguments, shell: Shell): ExitCode {
  if (status !== 200) {
    shell.err(`${errorOf(value)}\n`);
    return EXIT.no;
  }
  // The gateway may have a neighbouring version: fields may be missing, but never have another type.
  tell(value as Explanation, given, shell, true);
  return EXIT.ok;
}

function tell(explanation: Explanation, given: Arguments, shell: Shell, isRunning: boolean): void {
  if (given.isSet('json')) shell.out(`${JSON.stringify(explanation)}\n`);
  else shell.out(explanationText(explanation, isRunning));
}

function troubleLines({
  lostSince,
  lastError,
  nextAttempt,
  problems = [],
}: Explanation['candidates'][number]): readonly string[] {
  return [
    ...(lastError === undefined ? [] : [`lost since ${lostSince ?? 'the start'}: ${lastError}`]),
    ...(nextAttempt === undefined ? [] : [`next attempt at ${nextAttempt}`]),
    ...problems,
  ];
}

/** Human-readable form of an explanation. */
export function explanationText(explanation: Explanation, isRunning: boolean): string {
  const { name, authority, group, state, since, why, served, candidates } = explanation;
  const from = explanation.isDefault === true ? ' (not in the map: default_config_source)' : '';
  const lines = [name, `  authority  ${authority}${from}`, `  group      ${group}`];
  if (isRunning) {
    lines.push(`  state      ${state}, since ${since ?? 'the start'}, cause: ${why}`);
    const what = served ? `version ${served.version} from ${served.source}` : 'nothing';
    lines.push(`  served     ${what}`);
  }
  lines.push('  sources, in order of preference:');
  candidates.forEach((candidate, index) => {
    const { source, asks, active, live, tripped, breaker } = candidate;
    const words = [
      ...(active ? ['serves'] : []),
      live ? 'connected' : 'not connected',
      ...(tripped ? ['counts as down'] : []),
      ...(breaker === undefined ? [] : [`breaker ${breaker}`]),
    ];
    const health = isRunning ? `  (${words.join(', ')})` : '';
    lines.push(`    ${index + 1}. ${source}${health}`, `       requested as ${asks}`);
    lines.push(...troubleLines(candidate).map((line) => `       ${line}`));
  });
  // A gateway of an older version may not send `hops`.
  for (const { kind, to, problem } of (explanation.hops as typeof explanation.hops | undefined) ??
    []) {
    lines.push(`  ${kind.padEnd(10)} ${to}${problem === undefined ? '' : `: ${problem}`}`);
  }
  return `${lines.join('\n')}\n`;
}
