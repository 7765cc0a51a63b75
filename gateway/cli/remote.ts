/** `get`, `force`, `release` and `invalidate`: commands that call the admin API of a running gateway. */
import { stringify } from 'yaml';
import { isXdstp } from '../../protos/resource-name.js';
import { adminAddress, askAdmin, errorOf, type AdminAnswer } from './admin-client.js';
import { readArguments } from './arguments.js';
import { EXIT, type ExitCode, type Shell } from './command.js';

export async function get(argv: readonly string[], shell: Shell): Promise<ExitCode> {
  const given = readArguments(argv, ['URN'], { admin: 'string', json: 'boolean' });
  const [urn = ''] = given.positionals;
  const address = adminAddress(given.text('admin'), shell.env);
  const answer = await askAdmin(address, `/resources/${encodeURIComponent(urn)}`);
  return tell(answer, given.isSet('json'), shell);
}

export async function force(argv: readonly string[], shell: Shell): Promise<ExitCode> {
  const given = readArguments(argv, ['AUTHORITY', 'SOURCE'], {
    admin: 'string',
    for: 'string',
    group: 'string',
    json: 'boolean',
  });
  const [authority = '', source = ''] = given.positionals;
  const query = queryOf({ source, for: given.text('for'), group: given.text('group') });
  const path = `/authorities/${encodeURIComponent(authority)}/force${query}`;
  const address = adminAddress(given.text('admin'), shell.env);
  return tell(await askAdmin(address, path, 'POST'), given.isSet('json'), shell);
}

export async function release(argv: readonly string[], shell: Shell): Promise<ExitCode> {
  const flags = { admin: 'string', group: 'string', json: 'boolean' } as const;
  const given = readArguments(argv, ['AUTHORITY'], flags);
  const [authority = ''] = given.positionals;
  const query = queryOf({ group: given.text('group') });
  const path = `/authorities/${encodeURIComponent(authority)}/release${query}`;
  const address = adminAddress(given.text('admin'), shell.env);
  return tell(await askAdmin(address, path, 'POST'), given.isSet('json'), shell);
}

export async function invalidate(argv: readonly string[], shell: Shell): Promise<ExitCode> {
  const given = readArguments(argv, ['URN|AUTHORITY'], { admin: 'string', json: 'boolean' });
  const [what = ''] = given.positionals;
  const query = queryOf(isXdstp(what) ? { name: what } : { authority: what });
  const address = adminAddress(given.text('admin'), shell.env);
  const answer = await askAdmin(address, `/invalidate${query}`, 'POST');
  const code = tell(answer, given.isSet('json'), shell);
  if (code !== EXIT.ok || !answer.ok || isRequested(answer.value)) return code;
  shell.err(`nothing was requested: no client subscribes to ${what}, and no peer was told\n`);
  return EXIT.no;
}

/** A gateway of another version may not say it. */
function isRequested(value: unknown): boolean {
  const said = value as { readonly askedHere?: boolean; readonly toldOthers?: boolean };
  return said.askedHere !== false || said.toldOthers !== false;
}

function queryOf(parameters: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== undefined) query.set(key, value);
  }
  return query.size === 0 ? '' : `?${query.toString()}`;
}

function tell(answer: AdminAnswer, isJson: boolean, shell: Shell): ExitCode {
  if (!answer.ok) {
    shell.err(`${answer.message}\n`);
    return EXIT.unreachable;
  }
  if (answer.status !== 200) {
    shell.err(`${errorOf(answer.value)}\n`);
    return EXIT.no;
  }
  shell.out(isJson ? `${JSON.stringify(answer.value)}\n` : stringify(answer.value));
  return EXIT.ok;
}
