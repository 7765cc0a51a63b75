/**
 * Goal: a host without watches left costs the gateway no change of its map, and the operator learns the remedy.
 * Method: a real file, and a `watch` that fails.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import t from 'tap';
import { MapFile, stampOf } from '../../gateway/cli/map-file.js';
import type { Telemetry } from '../../gateway/telemetry/telemetry.js';
import { mapOf } from '../support/federation-driver.js';

t.test('a map file that cannot be watched is a warning with its remedy, and no bug', (t) => {
  const file = join(t.testdir({ 'map.yaml': '{}' }), 'map.yaml');
  const said: unknown[] = [];
  const errors: unknown[] = [];
  const telemetry = {
    say: (event: string, fields: unknown) => said.push([event, fields]),
    onHandlerError: (error: unknown) => errors.push(error),
  } as unknown as Telemetry;
  const nothing = (): void => undefined;
  const { watch } = fs;
  t.teardown(() => {
    fs.watch = watch;
    syncBuiltinESMExports();
  });
  const watchFailing = (code: string): void => {
    const error = Object.assign(new Error('watch'), { code });
    fs.watch = () => {
      throw error;
    };
    syncBuiltinESMExports();
    const map = mapOf({ authorities: {} });
    const mapFile = new MapFile({
      file,
      stamp: stampOf(file),
      map,
      apply: nothing,
      warn: nothing,
      telemetry,
    });
    mapFile.watch();
    mapFile.close();
  };
  watchFailing('ENOSPC');
  t.match(said, [['map_warning', { warning: /map.yaml: .*ENOSPC: it is read every 5 s \(raise/ }]]);
  t.strictSame(errors, []);
  watchFailing('EINVAL');
  t.match(errors, [{ code: 'EINVAL' }], 'anything else is one');
  t.equal(said.length, 1);
  t.end();
});
