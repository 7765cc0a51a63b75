/**
 * Compiles the schema of the authority map into `build/config/authority-map-validator.cjs`, for `config/map-schema.ts`:
 * compiled at each start, it would take 0.1 s. The output is deterministic.
 * Usage: node scripts/build-map-validator.mjs
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath, URL } from 'node:url';
import { Ajv2020 } from 'ajv/dist/2020.js';
import standalone from 'ajv/dist/standalone/index.js';

const fileOf = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const ajv = new Ajv2020({
  allErrors: true,
  verbose: true,
  allowUnionTypes: true,
  // With inlined references the code is larger, and no faster.
  inlineRefs: false,
  code: { source: true },
});
const schema = JSON.parse(readFileSync(fileOf('config/authority-map.schema.json'), 'utf8'));
const code = standalone.default(ajv, ajv.compile(schema));
writeFileSync(fileOf('build/config/authority-map-validator.cjs'), code);
