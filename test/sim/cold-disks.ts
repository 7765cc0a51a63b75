/**
 * State files with which an instance may start: its own, an older one, one of another map, or none.
 */
import { decodeCollections, encodeCollections } from '../../gateway/state-file/collection-file.js';
import type { Disk } from './disk.js';
import { nameText, partsOf } from './names.js';
import { parsedName } from './parsed-names.js';
import type { Random } from './random.js';

export type FileKind = 'same' | 'old' | 'other map' | 'none';

export const FILE_KINDS: readonly FileKind[] = ['same', 'same', 'old', 'other map', 'none'];

export function replaceFile(disk: Disk, kind: FileKind, dice: Random): void {
  if (kind === 'none') disk.file = undefined;
  else if (kind === 'old') disk.lose(dice);
  else if (kind === 'other map') disk.file = ofOtherMap(disk.file, dice);
}

type Decoded = Extract<ReturnType<typeof decodeCollections>, { ok: true }>['collections'];

/** Some collections get an authority that the map lacks, and some get other members. */
function ofOtherMap(file: string | undefined, dice: Random): string | undefined {
  const decoded = file === undefined ? undefined : decodeCollections(file, asItIs);
  if (!decoded?.ok) return file;
  const changed: Decoded[number][] = decoded.collections.map((one) => {
    const glob = dice.chance(0.3) ? moved(one.glob.key) : one.glob.key;
    const isMoved = glob !== one.glob.key;
    const members = one.members.map((key) => (isMoved ? moved(key) : key));
    const others = dice.chance(0.5)
      ? [glob.replace('*', 'never-1'), glob.replace('*', 'never-2')]
      : [];
    const parsed = isMoved ? parsedName(glob) : one.glob;
    return {
      ...one,
      glob: parsed,
      members: [...members, ...others],
      removed: isMoved ? [] : one.removed,
    };
  });
  return [...encodeCollections(changed, asItIs)].join('');
}

const asItIs = (atMs: number): number => atMs;

/** Old-style names stay, since they have no authority. */
function moved(key: string): string {
  if (!key.startsWith('xdstp://')) return key;
  const { typeUrl, id } = partsOf(key);
  return nameText('elsewhere', typeUrl, id);
}
