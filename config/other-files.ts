/** Tells a file of another kind from an authority map or a settings file, so that one error names the mistake. */
import { SETTING_OPTIONS } from './setting-options.js';

/** Sections of an authority map. */
const OF_MAP = ['sources', 'config_sources', 'authorities', 'old_style_names', 'clusters'];
/** The first words of all settings. `admin` and `node` are in Envoy bootstraps too. */
const OF_SETTINGS = [...new Set(SETTING_OPTIONS.map(({ key }) => key.split('.')[0] ?? ''))].filter(
  (section) => section !== 'admin' && section !== 'node',
);

/** A resource, or a list of resources. An Envoy bootstrap may have a type too. */
function isResources(value: object): boolean {
  const { '@type': type } = value as { readonly '@type'?: unknown };
  if (typeof type === 'string') return !type.endsWith('.Bootstrap');
  return Object.hasOwn(value, 'resources');
}

/**
 * @param place what the file was given as
 * @param value the parsed file
 * @returns undefined: the file may be what it was given as
 */
export function otherFileAs(
  place: 'map' | 'settings',
  value: unknown,
  file: string,
): { readonly message: string; readonly remedy: string } | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const has = (names: readonly string[]): boolean =>
    names.some((name) => Object.hasOwn(value, name));
  const [isMap, isSettings] = [has(OF_MAP), has(OF_SETTINGS)];
  if (isMap === isSettings) {
    if (isMap || place === 'settings' || !isResources(value)) return undefined;
    return {
      message: 'this is a file of resources, not an authority map',
      remedy: 'write a map with sources: { files: { path: DIRECTORY } }',
    };
  }
  if (isSettings && place === 'map') {
    return {
      message: 'this is a settings file, not an authority map',
      remedy: `tributary serve --settings ${file}; its authority_map names the map`,
    };
  }
  if (isMap && place === 'settings') {
    return {
      message: 'this is an authority map, not a settings file',
      remedy: `tributary serve --authority-map ${file}`,
    };
  }
  return undefined;
}
