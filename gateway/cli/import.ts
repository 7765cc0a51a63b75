/** `import`: turns the bootstrap of a client into an authority map. */
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { importBootstrap } from '../../config/import/import-bootstrap.js';
import { formatProblem } from '../../config/problems.js';
import { EXIT, type Command } from './command.js';

export const importCommand: Command = {
  name: 'import',
  positionals: [{ name: 'FILE' }],
  flags: [],
  meaning:
    'Prints the authority map for an Envoy or gRPC bootstrap (YAML or JSON), with comments on everything that has no counterpart.',
  run: (given, shell) => {
    const [file = ''] = given.positionals;
    let bytes: Buffer;
    try {
      bytes = readFileSync(file);
    } catch (error) {
      shell.err(
        `${file}: cannot be read: ${error instanceof Error ? error.message : String(error)}\n`,
      );
      return Promise.resolve(EXIT.no);
    }
    const imported = importBootstrap(bytes, file, basename(file));
    if (imported.ok) shell.out(imported.yaml);
    else for (const problem of imported.problems) shell.err(`${formatProblem(problem)}\n`);
    return Promise.resolve(imported.ok ? EXIT.ok : EXIT.no);
  },
};
