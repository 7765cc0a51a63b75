/**
 * Goal: a host without watches left costs the gateway no change of its map, and the operator learns the remedy, also of a file that
 * is gone.
 * Method: a real file, a `watch` that fails, and a mocked clock.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { mock } from 'node:test';
import t from 'tap';
import { MapFile, stampOf } from '../../gateway/cli/map-file.js';
import type { Telemetry } from '../../gateway/telemetry/telemetry.js';
import { mapOf } from '../support/federation-driver.js';
import { until } from '../support/until.js';

const nothing = (): void => undefined;
const openMap = (file: string, telemetry: Telemetry): MapFile =>
  new MapFile({
    file,
    stamp: stampOf(file),
    map: mapOf({ authorities: {} }),
    apply: nothing,
    warn: nothing,
    telemetry,
  });

t.test('a map file that cannot be watched is a warning with its remedy, and no bug', (t) => {
  const file = join(t.testdir({ 'map.yaml': '{}' }), 'map.yaml');
  const said: unknown[] = [];
  const errors: unknown[] = [];
  const telemetry = {
    say: (event: string, fields: unknown) => said.push([event, fields]),
    onHandlerError: (error: unknown) => errors.push(error),
  } as unknown as Telemetry;
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
    const mapFile = openMap(file, telemetry);
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

const MAP = '{ sources: { a: { path: . } }, authorities: { a: { sources: [a] } } }';

t.test('a map file that stays away is told once, and again when it is back', async (t) => {
  const file = join(t.testdir({ 'map.yaml': MAP }), 'map.yaml');
  const said: string[] = [];
  const reloads: string[] = [];
  const telemetry = {
    say: (event: string, fields: { readonly problems?: readonly string[] }) =>
      said.push([event, ...(fields.problems ?? [])].join(' ')),
    onMapReload: (result: string) => reloads.push(result),
    onHandlerError: (error: unknown) => {
      throw error;
    },
  } as unknown as Telemetry;
  mock.timers.enable({ apis: ['setInterval'] });
  const mapFile = openMap(file, telemetry);
  t.teardown(() => {
    mapFile.close();
    mock.timers.reset();
  });
  mapFile.watch();
  fs.rmSync(file);
  mock.timers.tick(5_000);
  t.strictSame(said, [], 'it may be replaced just now');
  mock.timers.tick(10_000);
  t.equal(said.length, 1);
  t.match(said[0], /map_refused .*map\.yaml: the file is missing: put it back/);
  t.strictSame(reloads, ['refused']);
  fs.writeFileSync(file, MAP);
  mock.timers.tick(5_000);
  await until('the map is read', () => reloads.length === 2);
  t.not(reloads[1], 'refused', 'a restart would succeed again');
});
