#!/usr/bin/env node
import { pino } from 'pino';
import { loadAuthorityMap } from '../config/authority-map.js';
import { formatProblem } from '../config/problems.js';
import { loadSettings } from '../config/settings.js';
import { createGateway } from './compose.js';
import { Telemetry } from './telemetry.js';

const argv = process.argv.slice(3);
const result = loadSettings({ argv, env: process.env });
if (!result.ok) {
  console.error(result.problems.map(formatProblem).join('\n'));
  process.exit(2);
}
const { settings } = result;
const loaded = loadAuthorityMap(settings.authorityMap);
if (!loaded.ok) {
  console.error(loaded.problems.map(formatProblem).join('\n'));
  process.exit(2);
}
const log = pino({ level: settings.log.level });
const gateway = createGateway({ settings, map: loaded.map, telemetry: new Telemetry(log) });
const port = await gateway.start();
log.info({
  event: 'gateway_ready',
  listen: `${settings.client.host}:${port}`,
  admin: '127.0.0.1:0',
});
process.on('SIGTERM', () => void gateway.stop().then(() => process.exit(0)));
