/** The files and directories that the authority map names: whether they exist, and what is in them. */
import { dirname, resolve } from 'node:path';
import type { SourceContext } from './channel-parts.js';
import type { Cursor } from './cursor.js';
import type { ClientTlsSpec } from './model.js';
import { variableIn } from './target.js';
import { readableAt, readNamedFile, type Unreadable } from './unreadable-file.js';
import { checkTlsFiles, type TlsFileRole } from './tls-files.js';

/** Access to the files of the map. */
export interface MapFiles {
  /** What this process may read at a path, or why it may not. */
  readonly at: (path: string) => 'file' | 'directory' | Unreadable;
  /** Absent: the contents are not checked. @throws UnreadableFileError */
  readonly read?: (path: string) => Buffer;
  /**
   * How to report a wrong certificate or key. A gateway that starts gets warnings: the files may be mended
   * while it runs, and its other sources must serve. `validate` reports problems.
   */
  readonly wrongContent: 'problem' | 'warning';
  /** Unix time, to compare with the validity of certificates. */
  readonly nowMs: number;
}

export function filesOnDisk(wrongContent: MapFiles['wrongContent']): MapFiles {
  return {
    at: readableAt,
    read: readNamedFile,
    wrongContent,
    nowMs: Date.now(),
  };
}

/**
 * @param file absolute path of the map: other paths are relative to its directory
 * @param files absent: nothing is checked
 */
export function fileChecks(
  file: string,
  files: MapFiles | undefined,
): Pick<SourceContext, 'existingPath' | 'checkTls'> {
  return {
    existingPath: (at, what) => existingPath(at, what, file, files),
    checkTls: (spec, at) => {
      if (files) checkTls(spec, at, files);
    },
  };
}

function existingPath(
  at: Cursor,
  what: string,
  file: string,
  files: MapFiles | undefined,
): string | undefined {
  const written = at.string();
  if (written === undefined || written === '') return undefined;
  const path = resolve(dirname(file), written);
  if (files === undefined) return path;
  const found = files.at(path);
  if (typeof found === 'string') {
    if (what.includes(found)) return path;
    at.problem(`${path} is a ${found}`, `write the path of a ${what}`);
  } else if (found.isMissing) {
    at.problem(`no ${what} at ${path}`, remedyFor(written, path) ?? found.remedy);
  } else {
    at.problem(`${path} cannot be read: ${found.words}`, found.remedy);
  }
  return undefined;
}

function remedyFor(written: string, path: string): string | undefined {
  const variable = variableIn(written);
  if (variable !== undefined) return `${variable} is a variable, and the gateway replaces none`;
  return path === written ? undefined : 'paths are relative to the authority map file';
}

function checkTls(
  spec: ClientTlsSpec,
  at: Readonly<Record<TlsFileRole, Cursor>>,
  { at: found, read, wrongContent, nowMs }: MapFiles,
): void {
  if (!read) return;
  const contentOf = (role: TlsFileRole, path: string | undefined): Buffer | undefined => {
    // Another file is a problem already.
    if (path === undefined || found(path) !== 'file') return undefined;
    try {
      return read(path);
    } catch (error) {
      at[role].problem(error instanceof Error ? error.message : String(error));
      return undefined;
    }
  };
  const findings = checkTlsFiles(
    {
      ca: contentOf('ca', spec.rootCertsFile),
      cert: contentOf('cert', spec.certChainFile),
      key: contentOf('key', spec.privateKeyFile),
    },
    nowMs,
  );
  for (const { role, isHarmless, message, remedy } of findings) {
    if (isHarmless || wrongContent === 'warning') at[role].warn(message, remedy);
    else at[role].problem(message, remedy);
  }
}
