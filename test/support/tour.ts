/** A tour of the README: its commands, and the output that it shows of each. */

export interface TourStep {
  readonly command: string;
  /** Lines of the output; a line `…` stands for any number of lines. */
  readonly shown: readonly string[];
}

/** The steps of the block between `<!-- name -->` and `<!-- /name -->`. */
export function stepsOf(page: string, name: string): readonly TourStep[] {
  const block = new RegExp(`<!-- ${name} -->\\s*\`\`\`console\\n([^\`]*)\`\`\``).exec(page)?.[1];
  const texts = (block ?? '').split(/^\$ /m).slice(1);
  return texts.map((text) => {
    const [command = '', ...shown] = text.trimEnd().split('\n');
    return { command, shown };
  });
}

/** Whether the output has exactly the shown lines. Times may differ. */
export function shows(output: string, shown: readonly string[]): boolean {
  const lines = shown.map((line) => (line === '…' ? '(?:.*\\n)*?' : `${escaped(line)}\\n`));
  return new RegExp(`^${lines.join('')}$`).test(withoutTimes(output));
}

const withoutTimes = (text: string): string =>
  text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, 'TIME');

const escaped = (line: string): string => withoutTimes(line).replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
