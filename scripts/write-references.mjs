/**
 * Writes the documents that are generated from code: docs/SETTINGS.md and docs/MAP.md.
 *
 *   npm run references
 */
import { writeFileSync } from 'node:fs';
import { mapReference } from '../build/config/map-reference.js';
import { settingsReference } from '../build/config/settings-reference.js';

const docs = new URL('../docs/', import.meta.url);
writeFileSync(new URL('SETTINGS.md', docs), settingsReference());
writeFileSync(new URL('MAP.md', docs), mapReference());
