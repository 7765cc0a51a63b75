/** `/logging`: shows and changes the log level while the gateway runs. */
import { didYouMean } from '../../config/nearest.js';
import { failure, json, type AdminContext, type AdminRequest, type Reply } from './reply.js';

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

export function showLevel({ telemetry }: AdminContext): Reply {
  return json(200, { level: telemetry.log.level });
}

export function changeLevel({ telemetry }: AdminContext, { query }: AdminRequest): Reply {
  const level = query.get('level');
  if (level === null) {
    return failure(400, 'level is not set: ?level=debug', { levels: LEVELS });
  }
  if (!LEVELS.includes(level)) {
    return failure(400, `"${level}" is not a log level, write one of ${LEVELS.join(', ')}`, {
      hint: didYouMean(level, LEVELS),
      levels: LEVELS,
    });
  }
  const before = telemetry.log.level;
  telemetry.log.level = level;
  telemetry.say('log_level_changed', { from: before, to: level });
  return json(200, { level });
}
