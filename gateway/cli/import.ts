/** `import`: turns the bootstrap of a client into an authority map. Other commands start without loading what reads it. */
import { basename, resolve } from 'node:path';
import { formatProblem } from '../../config/problems.js';
import { readRegularFile } from '../../config/regular-file.js';
import { unreadableFile } from '../../config/unreadable-file.js';
import { EXIT, type Command } from './command.js';

export const importCommand: Command = {
  name: 'import',
  positionals: [{ name: 'FILE' }],
  flags: [],
  meaning:
    'Prints the authority map for an Envoy or gRPC bootstrap (YAML or JSON), with a comment for each part that the map cannot express.',
  run: async (given, shell) => {
    const { importBootstrap } = await import('../../config/import/import-bootstrap.js');
    const [file = ''] = given.positionals;
    let bytes: Buffer;
    try {
      bytes = readRegularFile(file);
    } catch (error) {
      shell.err(`${formatProblem(unreadableFile(file, resolve(file), error))}\n`);
      return EXIT.no;
    }
    const imported = importBootstrap(bytes, file, basename(file));
    if (imported.ok) shell.out(imported.yaml);
    else for (const problem of imported.problems) shell.err(`${formatProblem(problem)}\n`);
    return imported.ok ? EXIT.ok : EXIT.no;
  },
};
