/** Reads the directories of an authority map once, as a gateway that starts would, and connects to nothing. */
import { DEFAULT_LIMITS, DEFAULT_RESOLUTION } from '../config/limits.js';
import type { AuthorityMap } from '../config/model.js';
import { Federation } from './core/federation.js';
import { FilesystemSource } from './filesystem-source.js';

export interface DirectoryProblems {
  /** The name of the source in the map. */
  readonly source: string;
  /** As the running gateway reports them: `file:line:column: …`, or `name: …`. Not empty. */
  readonly problems: readonly string[];
}

/** @returns the directories with problems: files that cannot be read, resources that cannot be served */
export function directoryProblems(map: AuthorityMap): readonly DirectoryProblems[] {
  const federation = new Federation({
    map,
    nodeFor: () => new Uint8Array(),
    maxResourcesPerResponse: DEFAULT_LIMITS.maxResourcesPerResponse,
    bounds: DEFAULT_RESOLUTION,
    random: () => 0,
  });
  return [...map.sources.values()].flatMap((spec) => {
    if (spec.kind !== 'path') return [];
    const { loaded, problems } = new FilesystemSource(spec).read();
    if (loaded) federation.handleLoaded(spec.name, { ...loaded, nowMs: 0 });
    const refused = federation
      .flush(0)
      .flatMap((effect) =>
        effect.kind === 'file_refused' ? [`${effect.name}: ${effect.reason}`] : [],
      );
    const all = [...problems, ...refused];
    return all.length === 0 ? [] : [{ source: spec.name, problems: all }];
  });
}
