/** One resource of a file, and what a file has, in whatever form it is written. */
import type { Problem } from './problems.js';

export interface FileResource {
  readonly name: string;
  readonly typeUrl: string;
  /** The `value` of the `Any`. */
  readonly body: Uint8Array;
}

export type ResourceFileResult =
  | { readonly ok: true; readonly resources: readonly FileResource[] }
  | {
      readonly ok: false;
      readonly problems: readonly Problem[];
      /** The resources of the valid documents of the file. */
      readonly resources: readonly FileResource[];
    };
