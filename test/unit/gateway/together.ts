import { runTogether } from '../../support/run-together.js';

await runTogether(import.meta.dirname);
