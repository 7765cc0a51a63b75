/** Reads and writes test/integration/mistakes.txt, whose first lines describe its form. */

export interface MistakeStep {
  /** As typed: `NAME=value … tributary command …`. */
  readonly command: string;
  /** Both outputs, stderr after stdout, and the exit code in brackets. */
  readonly said: string;
}

export interface Mistake {
  readonly title: string;
  /** Path → content. */
  readonly files: ReadonlyMap<string, Buffer>;
  readonly steps: readonly MistakeStep[];
  /** The lines before the first command. */
  readonly head: string;
}

export function mistakesIn(page: string): { readonly intro: string; readonly mistakes: Mistake[] } {
  const [intro = '', ...sections] = page.split(/^### /m);
  return { intro, mistakes: sections.map(mistakeIn) };
}

function mistakeIn(section: string): Mistake {
  const [head = '', ...commands] = section.split(/^\$ /m);
  const [first = '', ...files] = head.split(/^== /m);
  return {
    title: first.trim(),
    files: new Map(files.map(fileIn)),
    steps: commands.map((text) => {
      const end = text.indexOf('\n');
      return { command: text.slice(0, end), said: text.slice(end + 1).trimEnd() };
    }),
    head,
  };
}

function fileIn(text: string): readonly [string, Buffer] {
  const end = text.indexOf('\n');
  return [text.slice(0, end), bytesOf(`${text.slice(end + 1).trimEnd()}\n`)];
}

/** `\t`, `\r` and `\xE9` stand for these bytes; other text is UTF-8. */
function bytesOf(text: string): Buffer {
  const parts = text.split(/(\\t|\\r|\\x[0-9A-F]{2})/);
  return Buffer.concat(
    parts.map((part) => {
      if (part === '\\t') return Buffer.from('\t');
      if (part === '\\r') return Buffer.from('\r');
      const hex = /^\\x(..)$/.exec(part)?.[1];
      return hex === undefined ? Buffer.from(part) : Buffer.from(hex, 'hex');
    }),
  );
}

/** The page with these outputs. */
export function pageOf(intro: string, mistakes: readonly Mistake[]): string {
  const sections = mistakes.map(({ head, steps }) => {
    const shown = steps.map(({ command, said }) => `$ ${command}\n${said}\n`);
    return `### ${head}${shown.join('')}`;
  });
  return `${intro}${sections.join('\n')}`;
}
