/**
 * Goal: while an operator looks at a large resource, no client waits (docs/SECURITY.md, "Attacks").
 */
import { get } from 'node:http';
import t, { type Test } from 'tap';
import { AdminGrpcClient, CSDS_FETCH } from '../support/admin-grpc.js';
import { DeltaClient } from '../support/delta-client.js';
import { httpRequest } from '../support/http.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { until } from '../support/until.js';
import { ATTACKED, noLongTurn, startArena, underAttack, type Arena } from './arena.js';
import { assignmentBody, MANY_ENDPOINTS } from './assignment-json.js';

t.setTimeout(90_000);

const TYPE = TYPE_URLS.assignment;
const LARGE = xdstpName(ATTACKED, 'assignment', 'large');

/** Collects the lines of `/watch`. */
function watch(t: Test, url: string): { text: string } {
  const watched = { text: '' };
  const request = get(url, { agent: false }, (response) => {
    response.setEncoding('utf8');
    response.on('data', (text: string) => (watched.text += text));
  });
  request.on('error', () => undefined);
  t.teardown(() => request.destroy());
  return watched;
}

const isWhole = (text: string, portValue: number): boolean =>
  text.split(`"port_value":${portValue}}`).length === MANY_ENDPOINTS + 1;

/** Looks at it in one way. */
type Look = (t: Test, arena: Arena) => Promise<void>;

const LOOKS: Readonly<Record<string, Look>> = {
  config_dump: async (t, { gateway }) => {
    const { body } = await httpRequest(`http://${gateway.adminAddress}/config_dump`);
    t.ok(isWhole(body, 80), 'it is whole');
    t.ok(JSON.parse(body));
  },
  get: async (t, { gateway }) => {
    const path = `/resources/${encodeURIComponent(LARGE)}`;
    const { body } = await httpRequest(`http://${gateway.adminAddress}${path}`);
    t.ok(isWhole(body, 80), 'it is whole');
    t.match(JSON.parse(body), { name: LARGE });
  },
  watch: async (t, { gateway, source }) => {
    const url = `http://${gateway.adminAddress}/watch/${encodeURIComponent(LARGE)}`;
    const watched = watch(t, url);
    await until('it is told', () => isWhole(watched.text, 80), { everyMs: 100 });
    source.put(TYPE, LARGE, assignmentBody(LARGE, 81, MANY_ENDPOINTS));
    await until('it is told of the change', () => isWhole(watched.text, 81), { everyMs: 100 });
  },
  CSDS: async (t, { gateway }) => {
    const admin = new AdminGrpcClient(t, gateway.adminAddress);
    const { code, hex } = await admin.unary(CSDS_FETCH, Buffer.alloc(0));
    t.equal(code, 0);
    t.ok(hex.length > 2 * 600_000, 'it is whole');
    admin.client.close();
  },
};

/** The gateway loads the descriptors of Envoy's API with the first call, once. */
async function callOnce(t: Test, { gateway }: Arena): Promise<void> {
  const admin = new AdminGrpcClient(t, gateway.adminAddress);
  t.match(await admin.unary(CSDS_FETCH, Buffer.alloc(0)), { code: 0 });
  admin.client.close();
}

for (const [way, look] of Object.entries(LOOKS)) {
  t.test(`an operator looks at a resource of 2.8 MB of JSON: ${way}`, async (t) => {
    const arena = await startArena(t);
    await callOnce(t, arena);
    const client = new DeltaClient({ port: arena.gateway.port });
    t.teardown(() => {
      client.close();
    });
    arena.source.put(TYPE, LARGE, assignmentBody(LARGE, 80, MANY_ENDPOINTS));
    client.subscribe(TYPE, [LARGE]);
    await until('it is held', () => client.held(TYPE).has(LARGE));
    const figures = await underAttack(t, arena, `${way} of 2.8 MB`, () => look(t, arena));
    noLongTurn(t, figures);
  });
}
