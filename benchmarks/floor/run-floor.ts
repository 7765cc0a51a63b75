import { createServer, type AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { AUTHORITY } from '../harness/server.js';
import { Floor } from './floor.js';

const METHODS = '/envoy.service.discovery.v3.AggregatedDiscoveryService/';

/** Serves one gRPC method on a free port of 127.0.0.1 and returns that port. */
export type Serve = (method: string, floor: Floor) => Promise<number>;

/**
 * Runs a floor as a process: `--resources N [--sotw] [--old-style]`. It opens a control port with the
 * same lines as benchmarks/peers/internal/control, and prints one JSON line when it is ready.
 */
export async function runFloor(serve: Serve): Promise<void> {
  const { values } = parseArgs({
    options: {
      resources: { type: 'string', default: '1000' },
      sotw: { type: 'boolean', default: false },
      'old-style': { type: 'boolean', default: false },
    },
  });
  const catalogue = { authority: AUTHORITY, sotw: values.sotw, oldStyle: values['old-style'] };
  const floor = new Floor(catalogue, Number(values.resources));
  const control = await openControl(floor);
  const method = values.sotw ? 'StreamAggregatedResources' : 'DeltaAggregatedResources';
  const port = await serve(METHODS + method, floor);
  const ready = {
    event: 'ready',
    listen: `127.0.0.1:${port}`,
    control: `127.0.0.1:${control}`,
  };
  process.stdout.write(`${JSON.stringify(ready)}\n`);
}

function openControl(floor: Floor): Promise<number> {
  const control = createServer((socket) => {
    socket.on('error', () => undefined);
    createInterface({ input: socket }).on('line', (line) => {
      const [verb, index, marker] = line.split(' ');
      if (verb === 's') socket.write('s\n');
      else if (verb === 'c') floor.change(Number(index), marker!);
    });
  });
  return new Promise((settle) => {
    control.listen(0, '127.0.0.1', () => {
      settle((control.address() as AddressInfo).port);
    });
  });
}
