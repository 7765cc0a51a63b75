/** `-o`: the form of a result on stdout. The fields are those of the admin API, in its order. */
import { stringify } from 'yaml';
import { errorOf, type AdminAnswer } from './admin-client.js';
import { type Arguments, EXIT, type ExitCode, type Flag, type Shell } from './command.js';

/** For commands with a text for people. */
export const TEXT_OUTPUT: Flag = {
  name: 'output',
  short: 'o',
  value: 'FORM',
  choices: ['text', 'json', 'yaml'],
  meaning: 'Form of the output: text (default), json or yaml.',
};

/** For commands that print what the admin API returns. */
export const YAML_OUTPUT: Flag = {
  ...TEXT_OUTPUT,
  choices: ['json', 'yaml'],
  meaning: 'Form of the output: yaml (default) or json.',
};

/** @param text absent: the command has no text, and its default is YAML */
export function printed(value: unknown, given: Arguments, text?: string): string {
  const form = given.text('output') ?? (text === undefined ? 'yaml' : 'text');
  if (form === 'json') return `${JSON.stringify(value)}\n`;
  return form === 'text' && text !== undefined ? text : stringify(value);
}

/**
 * Prints the result or the error of a request to the admin API.
 *
 * @param textOf for people; absent: the command has no text, and its default is YAML
 */
export function tellAnswer(
  answer: AdminAnswer,
  given: Arguments,
  shell: Shell,
  textOf?: (value: unknown) => string,
): ExitCode {
  if (!answer.ok) {
    shell.err(`${answer.message}\n`);
    return EXIT.unreachable;
  }
  if (answer.status !== 200) {
    shell.err(`${errorOf(answer.value)}\n`);
    return EXIT.no;
  }
  shell.out(printed(answer.value, given, textOf?.(answer.value)));
  return EXIT.ok;
}
