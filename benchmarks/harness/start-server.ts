import { startTributary } from '../tributary/start.js';
import { Child, SERVER_CORE } from './child.js';
import { built, peerBinary } from './paths.js';
import { GLOB, type Server, type ServerName, type ServerOptions } from './server.js';

export async function startServer(name: ServerName, options: ServerOptions): Promise<Server> {
  const resources = ['--resources', String(options.resources)];
  switch (name) {
    case 'floor':
      return ready(
        new Child('node', [built('benchmarks/floor/server.js'), ...resources], SERVER_CORE),
        GLOB,
      );
    case 'linear':
      return ready(new Child(peerBinary('linear'), resources, SERVER_CORE), '*');
    case 'tributary':
      return startTributary(options);
  }
}

async function ready(child: Child, wildcard: string): Promise<Server> {
  const line = await child.lineWithEvent('ready');
  return {
    pid: child.pid,
    target: String(line['listen']),
    control: String(line['control']),
    wildcard,
    obituary: () => child.obituary,
    stop: () => child.stop(),
  };
}
