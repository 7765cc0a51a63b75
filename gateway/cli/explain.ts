/** The sources of a name and what is served, with or without a running gateway. */
import { resolve } from 'node:path';
import { loadAuthorityMap } from '../../config/authority-map.js';
import type { AuthorityMap } from '../../config/model.js';
import { didYouMean } from '../../config/nearest.js';
import { formatProblem } from '../../config/problems.js';
import { readType } from '../../config/type-names.js';
import {
  explainOldStyle,
  oldStyleText,
  type OldStyleExplanation,
} from '../admin/explain-old-style.js';
import { explainOffline, nameFrom, offlineFederation, type Explanation } from '../admin/explain.js';
import {
  AS_FORMS,
  explainRights,
  identityFrom,
  rightsText,
  type DescribedClient,
} from '../admin/explain-rights.js';
import { oldStyleName } from '../../protos/resource-name.js';
import { NO_DETAILS } from '../admin/source-details.js';
import { answerLines, healthWords, troubleLines } from '../admin/source-words.js';
import { adminTarget, askAdmin, errorOf, queryOf } from './admin-client.js';
import { type Arguments, EXIT, type ExitCode, type Shell, UsageError } from './command.js';
import { printed } from './output.js';

/** Prints the explanation of the name, or why there is none. */
export async function explainName(given: Arguments, shell: Shell): Promise<ExitCode> {
  const [urn = ''] = given.positionals;
  const client = describedClient(given);
  const type = given.text('type');
  if (type !== undefined) return explainOpaque(urn, type, given, client, shell);
  const named = nameFrom(urn);
  if (!named.ok) {
    shell.err(`${urn}: ${named.message}\n`);
    return EXIT.no;
  }
  const file = given.text('authority-map') ?? shell.env['TRIBUTARY_AUTHORITY_MAP'];
  if (!given.isSet('offline')) {
    const target = adminTarget(given, shell.env);
    const query = queryOf(describedAs(client));
    const answer = await askAdmin(target, `/explain/${encodeURIComponent(urn)}${query}`);
    if (answer.ok) return tellAnswer(answer.status, answer.value, given, shell);
    if (file === undefined || given.text('admin') !== undefined) {
      shell.err(`${answer.message}\n(--authority-map FILE explains the file without a gateway)\n`);
      return EXIT.unreachable;
    }
    shell.err(`${answer.message}; explaining ${file} without it\n`);
  }
  const map = offlineMap(file, shell);
  if (!map) return EXIT.no;
  const explanation = explainOffline(map, named.name);
  if (explanation) {
    const { clients } = map;
    const rights = client && explainRights(clients, named.typeUrl, named.name, client);
    tell({ ...explanation, ...(rights ? { rights } : {}) }, given, shell, false);
    return EXIT.ok;
  }
  const { authority } = named.name;
  const hint = didYouMean(authority, [...map.authorities.keys()]);
  shell.err(`no authority "${authority}" in ${file}${hint === undefined ? '' : ` (${hint})`}\n`);
  return EXIT.no;
}

/** @throws UsageError if `--as` is not an identity */
function describedClient(given: Arguments): DescribedClient | undefined {
  const as = given.text('as');
  if (as === undefined) return undefined;
  if (!identityFrom(as)) throw new UsageError(`--as is not an identity (write ${AS_FORMS})`);
  return { as, address: given.text('address') ?? '', nodeId: given.text('node-id') ?? '' };
}

/** The parameters of `/explain` that describe a client. */
const describedAs = (client: DescribedClient | undefined): Readonly<Record<string, string>> =>
  client ? { as: client.as, address: client.address, node_id: client.nodeId } : {};

/** Explains an old-style name, which does not contain its type. */
async function explainOpaque(
  text: string,
  type: string,
  given: Arguments,
  client: DescribedClient | undefined,
  shell: Shell,
): Promise<ExitCode> {
  const read = readType(type);
  if (!read.ok) throw new UsageError(`--type: ${read.message} (${read.remedy})`);
  const tell = (explanation: OldStyleExplanation): ExitCode => {
    shell.out(printed(explanation, given, oldStyleText(explanation)));
    return EXIT.ok;
  };
  if (!given.isSet('offline')) {
    const query = queryOf({ type, ...describedAs(client) });
    const target = adminTarget(given, shell.env);
    const answer = await askAdmin(target, `/explain/${encodeURIComponent(text)}${query}`);
    if (answer.ok && answer.status === 200) return tell(answer.value as OldStyleExplanation);
    shell.err(`${answer.ok ? errorOf(answer.value) : answer.message}\n`);
    return answer.ok ? EXIT.no : EXIT.unreachable;
  }
  const file = given.text('authority-map') ?? shell.env['TRIBUTARY_AUTHORITY_MAP'];
  const map = offlineMap(file, shell);
  if (!map) return EXIT.no;
  const explanation = explainOldStyle(offlineFederation(map), text, read.typeUrl, NO_DETAILS);
  if (explanation) {
    const { clients } = map;
    const name = oldStyleName('', text);
    const rights = client && explainRights(clients, explanation.typeUrl, name, client);
    return tell({ ...explanation, ...(rights ? { rights } : {}) });
  }
  shell.err(`no source in ${file} serves old-style names of type ${type}\n`);
  return EXIT.no;
}

/** @returns undefined: the map is invalid, and its problems are told */
function offlineMap(file: string | undefined, shell: Shell): AuthorityMap | undefined {
  if (file === undefined) throw new UsageError('--offline needs --authority-map FILE');
  const loaded = loadAuthorityMap(resolve(file));
  if (loaded.ok) return loaded.map;
  for (const problem of loaded.problems) shell.err(`${formatProblem(problem)}\n`);
  return undefined;
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
  shell.out(printed(explanation, given, explanationText(explanation, isRunning)));
}

/** Human-readable form of an explanation. */
export function explanationText(explanation: Explanation, isRunning: boolean): string {
  const { name, authority, group, state, since, why, served, candidates } = explanation;
  const { rights } = explanation;
  const from = explanation.isDefault === true ? ' (not in the map: default_config_source)' : '';
  const lines = [name, `  authority  ${authority}${from}`, `  group      ${group}`];
  if (rights) lines.push(rightsText(rights));
  if (isRunning) {
    lines.push(`  state      ${state}, since ${since ?? 'the start'}, cause: ${why}`);
    const what = served ? `version ${served.version} from ${served.source}` : 'nothing';
    lines.push(`  served     ${what}`);
  }
  lines.push('  sources, in order of preference:');
  candidates.forEach((candidate, index) => {
    const { source, asks, active, live } = candidate;
    const words = [
      // After the loss of a source, its content is served from the cache, if there is any.
      ...(active && (live || served) ? ['serves'] : []),
      ...healthWords(candidate),
    ];
    const health = isRunning ? `  (${words.join(', ')})` : '';
    lines.push(`    ${index + 1}. ${source}${health}`, `       requested as ${asks}`);
    const said = isRunning ? answerLines(candidate) : [];
    lines.push(...[...said, ...troubleLines(candidate)].map((line) => `       ${line}`));
  });
  // A gateway of an older version may not send `hops`.
  for (const { kind, to, problem } of (explanation.hops as typeof explanation.hops | undefined) ??
    []) {
    lines.push(`  ${kind.padEnd(10)} ${to}${problem === undefined ? '' : `: ${problem}`}`);
  }
  return `${lines.join('\n')}\n`;
}
