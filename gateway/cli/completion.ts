/** `completion`: prints a script with which a shell completes commands, flags and their values. */
import { EXIT, type Command, type Flag, type Positional } from './command.js';

const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** What completion needs of a command. */
export type Completed = Pick<Command, 'name' | 'meaning' | 'positionals' | 'flags'>;

/** @param commands called when the script is printed, since this command is one of them */
export function completionCommand(commands: () => readonly Completed[]): Command {
  return {
    name: 'completion',
    positionals: [{ name: 'bash|zsh|fish', choices: SHELLS }],
    flags: [],
    meaning: 'Prints the completion script of a shell, e.g. source <(tributary completion bash).',
    run: (given, shell) => {
      const [name = 'bash'] = given.positionals;
      shell.out(completionScript(name as (typeof SHELLS)[number], commands()));
      return Promise.resolve(EXIT.ok);
    },
  };
}

export function completionScript(
  shell: (typeof SHELLS)[number],
  commands: readonly Completed[],
): string {
  switch (shell) {
    case 'bash':
      return bash(commands);
    case 'zsh':
      return zsh(commands);
    case 'fish':
      return fish(commands);
  }
}

/** Values that are files complete as files; choices as themselves; others not at all. */
const isFile = (value: string | undefined): boolean => value === 'FILE';
const namesOf = ({ name, short }: Flag): readonly string[] => [
  `--${name}`,
  ...(short === undefined ? [] : [`-${short}`]),
];
const firstOf = ({ positionals }: Completed): Positional | undefined => positionals[0];

function bash(commands: readonly Completed[]): string {
  const values = commands.flatMap(({ name, flags }) =>
    flags.flatMap((flag) => {
      if (flag.value === undefined) return [];
      const pattern = namesOf(flag)
        .map((each) => `'${name} ${each}'`)
        .join('|');
      return [`    ${pattern}) ${bashReply(flag.choices, isFile(flag.value))} ;;`];
    }),
  );
  const words = commands.map((command) => {
    const flags = command.flags.flatMap(namesOf).join(' ');
    const first = firstOf(command);
    const choices = first?.choices?.join(' ') ?? '';
    const files = isFile(first?.name) ? ' -f' : '';
    return `    ${command.name}) COMPREPLY=($(compgen${files} -W '${`${choices} ${flags}`.trim()}' -- "$word")) ;;`;
  });
  return `# tributary: completion for bash
_tributary() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} command=\${COMP_WORDS[1]}
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${commands.map(({ name }) => name).join(' ')}' -- "$word"))
    return
  fi
  case "$command $before" in
${values.join('\n')}
    *) case "$command" in
${words.map((line) => `  ${line}`).join('\n')}
    esac ;;
  esac
}
complete -F _tributary tributary
`;
}

const bashReply = (choices: readonly string[] | undefined, files: boolean): string =>
  choices
    ? `COMPREPLY=($(compgen -W '${choices.join(' ')}' -- "$word"))`
    : files
      ? 'COMPREPLY=($(compgen -f -- "$word"))'
      : ':';

/** The text inside of the brackets of `_arguments`, in single quotes. */
const zshWords = (text: string): string =>
  text.replaceAll("'", "'\\''").replace(/[[\]:\\]/g, '\\$&');

function zsh(commands: readonly Completed[]): string {
  const list = commands.map(({ name, meaning }) => `    '${name}:${zshWords(meaning)}'`);
  const cases = commands.map(({ name, positionals, flags }) => {
    const specs = [
      ...flags.flatMap((flag) => namesOf(flag).map((each) => zshFlag(each, flag))),
      ...positionals.map((positional) => {
        const action = zshAction(positional.choices, isFile(positional.name));
        return `':${zshWords(positional.name)}:${action}'`;
      }),
    ];
    return `    ${name}) _arguments ${specs.join(' ')} ;;`;
  });
  return `#compdef tributary
# tributary: completion for zsh
_tributary() {
  local -a commands=(
${list.join('\n')}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
${cases.join('\n')}
  esac
}
compdef _tributary tributary
`;
}

function zshFlag(name: string, { value, choices, meaning }: Flag): string {
  const end = value === undefined ? '' : `:${zshWords(value)}:${zshAction(choices, isFile(value))}`;
  return `'${name}[${zshWords(meaning)}]${end}'`;
}

const zshAction = (choices: readonly string[] | undefined, files: boolean): string =>
  choices ? `(${choices.join(' ')})` : files ? '_files' : ' ';

function fish(commands: readonly Completed[]): string {
  const quoted = (text: string): string => `'${text.replace(/['\\]/g, '\\$&')}'`;
  const lines = commands.flatMap((command) => {
    const { name, meaning, flags } = command;
    const within = `complete -c tributary -n '__fish_seen_subcommand_from ${name}'`;
    const first = firstOf(command);
    return [
      `complete -c tributary -n __fish_use_subcommand -a ${name} -d ${quoted(meaning)}`,
      ...(first?.choices ? [`${within} -a ${quoted(first.choices.join(' '))}`] : []),
      ...(isFile(first?.name) ? [`${within} -F`] : []),
      ...flags.map(({ name: flag, short, value, choices, meaning: what }) => {
        const letter = short === undefined ? '' : ` -s ${short}`;
        const values = choices ? ` -a ${quoted(choices.join(' '))}` : '';
        const kind = value === undefined ? '' : isFile(value) ? ' -r -F' : ' -x';
        return `${within} -l ${flag}${letter}${kind}${values} -d ${quoted(what)}`;
      }),
    ];
  });
  return `# tributary: completion for fish\ncomplete -c tributary -f\n${lines.join('\n')}\n`;
}
