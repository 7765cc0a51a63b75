/** Turns a bootstrap of either kind into an authority map. */
import type { Problem } from '../problems.js';
import { decodeUtf8, NOT_UTF8, SAVE_AS_UTF8 } from '../utf8.js';
import { readDocuments } from '../yaml-positions.js';
import { bootstrapKindOf } from './bootstrap-kind.js';
import { importEnvoyBootstrap } from './envoy-bootstrap.js';
import { importGrpcBootstrap } from './grpc-bootstrap.js';

export type Imported =
  | { readonly ok: true; readonly yaml: string }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/**
 * @param bytes of the bootstrap, YAML or JSON
 * @param file its path, for problems
 * @param title its name in the comment of the map
 */
export function importBootstrap(bytes: Buffer, file: string, title: string): Imported {
  const read = decodeUtf8(bytes);
  if (!read.ok) {
    const { line, column } = read;
    const problem = { file, line, column, field: '', message: NOT_UTF8, remedy: SAVE_AS_UTF8 };
    return { ok: false, problems: [problem] };
  }
  const { documents, problems } = readDocuments(read.text, file);
  if (problems.length > 0) return { ok: false, problems };
  const [document] = documents;
  switch (bootstrapKindOf(document?.value)) {
    case 'envoy':
      return { ok: true, yaml: importEnvoyBootstrap(document?.value, title) };
    case 'grpc':
      return { ok: true, yaml: importGrpcBootstrap(document?.value, title) };
    case undefined: {
      const message = 'is neither an Envoy bootstrap nor a gRPC bootstrap';
      const remedy = 'tributary validate checks an authority map';
      const place = { file, line: 1, column: 1, field: '' };
      return { ok: false, problems: [{ ...place, message, remedy }] };
    }
  }
}
