/** Facts out of the machines, into logs and metrics. */
import type { Logger } from 'pino';
import type { FederationEffect } from '../authorities/index.js';
import type { ClientStream, ClientStreamEvent } from './client-stream.js';

export class Telemetry {
  readonly #log: Logger;

  constructor(log: Logger) {
    this.#log = log;
  }

  onFederation(effect: FederationEffect): void {
    if (effect.kind === 'server') {
      const { source, effect: inner } = effect;
      if (inner.kind === 'send') return;
      if (inner.kind === 'received')
        this.#log.debug({
          event: 'source_received',
          source,
          ...inner.outcome,
          typeUrl: inner.typeUrl,
        });
      else this.#log.info({ event: `source_${inner.kind}`, source, detail: inner });
      return;
    }
    if (effect.kind === 'group') {
      const { group, event } = effect;
      if (event.kind === 'state')
        this.#log.info({
          event: 'failover_state',
          group: group.id,
          from: event.from.kind,
          to: event.to.kind,
          cause: event.to.cause,
        });
      else this.#log.info({ group: group.id, detail: event, event: `group_${event.kind}` });
      return;
    }
    this.#log.warn({ event: 'file_refused', detail: effect });
  }

  onFileProblems(source: string, problems: readonly string[]): void {
    this.#log.error({ event: 'file_problems', source, problems });
  }

  onClient(stream: ClientStream, event: ClientStreamEvent): void {
    this.#log.debug({ client: stream.id, detail: event, event: `client_${event.kind}` });
  }

  onHandlerError(error: unknown): void {
    this.#log.error({ event: 'handler_error', err: error });
  }
}
