import { startTributary } from '../tributary/start.js';
import { Child, SERVER_CORE } from './child.js';
import { built, peerBinary } from './paths.js';
import { GLOB, WILDCARD, type Server, type ServerName, type ServerOptions } from './server.js';

export async function startServer(name: ServerName, options: ServerOptions): Promise<Server> {
  const names = options.oldStyle === true ? ['--old-style'] : [];
  const flags = ['--resources', String(options.resources), ...names];
  const floorFlags = options.sotw === true ? [...flags, '--sotw'] : flags;
  const wildcard = options.oldStyle === true ? WILDCARD : GLOB;
  const node = (script: string): Child =>
    new Child('node', [built(`benchmarks/floor/${script}`), ...floorFlags], SERVER_CORE);
  switch (name) {
    case 'floor':
      return ready(node('grpc-js.js'), wildcard);
    case 'floor-http2':
      return ready(node('http2.js'), wildcard);
    case 'floor-go':
      return ready(new Child(peerBinary('floor'), floorFlags, SERVER_CORE), wildcard);
    case 'linear':
      return ready(new Child(peerBinary('linear'), flags, SERVER_CORE), WILDCARD);
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
