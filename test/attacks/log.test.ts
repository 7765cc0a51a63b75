/** Goal: no client fills the disk with log lines, or writes to an operator's terminal (docs/SECURITY.md, "Attacks"). */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { decodeDeltaResponse, encodeDeltaRequest } from '../../protos/delta-codec.js';
import type { DeltaRequest } from '../../protos/discovery.js';
import { encodeNode } from '../../protos/node-codec.js';
import { openAdsCall } from '../support/ads-call.js';
import { DeltaClient } from '../support/delta-client.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { until } from '../support/until.js';
import { assignmentBody } from '../interop/peers/siege.js';
import { ATTACKED, startArena, underAttack, type Arena } from './arena.js';

t.setTimeout(60_000);

const EDS = TYPE_URLS.assignment;
const NACKS = 31;
/** Nearly the largest request. */
const NODE_ID_BYTES = 900_000;
const REFUSED_NAMES = 16_200;
const NAMES_PER_STREAM = 2_700;
const MAX_LINES_PER_SECOND = 10;
const MAX_LINE_BYTES = 4_096;
/** Of the streams: opened and closed; and of the start of the gateway. */
const OTHER_LINES = 20;
// eslint-disable-next-line no-control-regex
const CONTROLS = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/;

const logOf = ({ gateway }: Arena): string =>
  readFileSync(join(gateway.directory, 'stdout.log'), 'utf8');

/** A client that refuses every response, with another error each time. @returns the number of NACKs so far */
function nackAll(
  t: Test,
  { gateway }: Arena,
  first: Parameters<typeof request>[0],
): { readonly count: number } {
  const sent = { count: 0 };
  const call = openAdsCall({
    port: gateway.port,
    method: 'DeltaAggregatedResources',
    onMessage: (bytes) => {
      const response = decodeDeltaResponse(bytes, 1_000);
      if (!response.ok) throw new Error(response.reason);
      const { typeUrl, nonce: responseNonce } = response.message;
      const message = `${++sent.count} ${'\u001b[31m'.repeat(100_000)}`;
      call.write(request({ typeUrl, responseNonce, errorDetail: { code: 3, message } }));
    },
  });
  t.teardown(() => {
    call.close();
  });
  call.write(request(first));
  return sent;
}

const request = (fields: Partial<DeltaRequest>): Uint8Array =>
  encodeDeltaRequest({
    node: undefined,
    typeUrl: '',
    subscribe: [],
    unsubscribe: [],
    initialVersions: new Map(),
    responseNonce: '',
    errorDetail: undefined,
    ...fields,
  });

t.test('refused names and NACKs of a hostile client cost few short lines', async (t) => {
  const arena = await startArena(t);
  const name = xdstpName(ATTACKED, 'assignment', 'edge/one');
  arena.source.put(EDS, name, assignmentBody(name, 0));
  const id = `\u001b[2J\u009b${'n'.repeat(NODE_ID_BYTES)}`;
  const node = encodeNode({ id, cluster: '\u0007', userAgentName: '', userAgentVersion: '' });
  const beforeBytes = logOf(arena).length;
  const beganMs = performance.now();
  const size = `${REFUSED_NAMES} refused names, ${NACKS} NACKs, a node id of 0.9 MB`;
  await underAttack(t, arena, size, async () => {
    const open = (): DeltaClient => {
      const client = new DeltaClient({ port: arena.gateway.port, node });
      t.teardown(() => {
        client.close();
      });
      return client;
    };
    for (let from = 0; from < REFUSED_NAMES; from += NAMES_PER_STREAM) {
      const names = Array.from({ length: NAMES_PER_STREAM }, (_, at) => `\u001b]0;x${from + at}`);
      open().subscribe(EDS, names);
    }
    const refused = (): Promise<number> =>
      arena.gateway.metric('tributary_client_refused_names_total');
    await until('all are refused', async () => (await refused()) === REFUSED_NAMES);
    const nacks = (): Promise<number> => arena.gateway.metric('tributary_client_nacks_total');
    const send = nackAll(t, arena, { node, typeUrl: EDS, subscribe: [name] });
    for (let at = 0; at < NACKS; at++) {
      await until('the response is refused', async () => (await nacks()) === at + 1);
      arena.source.put(EDS, name, assignmentBody(name, at + 1));
    }
    t.ok(send.count >= NACKS);
  });
  const seconds = Math.ceil((performance.now() - beganMs) / 1_000);
  const log = logOf(arena).slice(beforeBytes);
  const lines = log.split('\n').filter((line) => line !== '');
  const longest = Math.max(...lines.map((line) => Buffer.byteLength(line)));
  t.comment(`${lines.length} lines in ${seconds} s, the longest has ${longest} bytes`);
  t.ok(lines.length > 0 && lines.length <= MAX_LINES_PER_SECOND * seconds + OTHER_LINES);
  t.ok(longest <= MAX_LINE_BYTES);
  t.notMatch(log, CONTROLS);
});
