/** The Envoy of a demo, if there is one on PATH. */
import { spawn, type ChildProcess } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** @param path a list of directories: the variable PATH */
export function findEnvoy(path: string): string | undefined {
  return path
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, 'envoy'))
    .find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** @param onExit when it ends without {@link stopEnvoy} */
export function startEnvoy(
  program: string,
  bootstrap: string,
  onExit: (reason: string) => void,
): ChildProcess {
  const quiet = ['--disable-hot-restart', '--concurrency', '1', '--log-level', 'critical'];
  // In a process group of its own: a Ctrl-C at the terminal would end it before the traffic ends.
  const options = { stdio: 'ignore', detached: true } as const;
  const child = spawn(program, ['-c', bootstrap, ...quiet], options);
  const endWithParent = (): void => {
    child.kill('SIGKILL');
  };
  process.once('exit', endWithParent);
  child.on('error', (error) => {
    onExit(error.message);
  });
  child.once('close', () => {
    process.off('exit', endWithParent);
  });
  child.on('exit', (code) => {
    onExit(`it ended with code ${code ?? 'none'}`);
  });
  return child;
}

export async function stopEnvoy(child: ChildProcess): Promise<void> {
  child.removeAllListeners('exit');
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  await new Promise<void>((resolve) => {
    child.once('exit', () => {
      resolve();
    });
    child.kill('SIGKILL');
  });
}
