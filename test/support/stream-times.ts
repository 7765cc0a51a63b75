/** The times of a response that is taken as soon as it comes. */
import type { ResponseTimes } from '../../authorities/core/sources/source-stream.js';

export const at = (nowMs: number): ResponseTimes => ({ nowMs, arrivedMs: nowMs });
