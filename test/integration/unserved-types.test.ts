/**
 * Goal: a client that requests a type which its source does not serve does not cut off the other clients of that source, although
 * the source ends the stream of the gateway for it (docs/FAILOVER.md, "Types").
 * Method: a gateway in this process, a source over a real socket, delta clients.
 */
import t, { type Test } from 'tap';
import { STATUS_CODE } from '../../protos/discovery.js';
import { DeltaClient } from '../support/delta-client.js';
import { httpJson } from '../support/http.js';
import { startGateway } from '../support/identity-gateway.js';
import { CDS, cds } from '../support/mesh-names.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { bodyOf } from '../support/sotw-stream-rig.js';
import { until } from '../support/until.js';

const AUTHORITY = 'cloud.test';
const web = cds('web', AUTHORITY);

const MADE_UP = ['made.up.One', 'made.up.Two', 'made.up.Three'];

/** @param backoffBase in the map's notation */
async function start(t: Test, backoffBase: string) {
  const upstream = await ScriptedUpstream.start();
  t.teardown(() => upstream.stop());
  for (const type of MADE_UP) upstream.unserved.add(`type.googleapis.com/${type}`);
  upstream.put(CDS, web, bodyOf(web, 1));
  const timers = `{ backoff_base: ${backoffBase}, backoff_max: 60s }`;
  const gateway = await startGateway(
    t,
    `
sources: { s: { target: "127.0.0.1:${upstream.port}", insecure: true, timers: ${timers} } }
authorities: { ${AUTHORITY}: { sources: [s] } }
`,
  );
  const open = (typeUrl: string, name: string): DeltaClient => {
    const client = new DeltaClient({ port: gateway.port });
    t.teardown(() => {
      client.close();
    });
    client.subscribe(typeUrl, [name]);
    return client;
  };
  return {
    upstream,
    gateway,
    openInnocent: () => open(CDS, web),
    openOthers: () =>
      MADE_UP.map((type) => open(`type.googleapis.com/${type}`, `xdstp://${AUTHORITY}/${type}/a`)),
  };
}

const isServed = (client: DeltaClient): boolean => client.held(CDS).has(web);

t.test(
  'a type that ends the stream of its source is UNAVAILABLE, and all others go on',
  async (t) => {
    const { upstream, gateway, openInnocent, openOthers } = await start(t, '20ms');
    const innocent = openInnocent();
    await until('the innocent client is served', () => isServed(innocent));
    const others = openOthers();
    await until('a type is refused', () =>
      others.some((one) => one.errors().some(({ code }) => code === STATUS_CODE.unavailable)),
    );
    const changes = async (mark: number): Promise<void> => {
      upstream.put(CDS, web, bodyOf(web, mark));
      await until('the change arrives', () => innocent.content(CDS).get(web)?.at(-1) === mark);
    };
    await changes(2);
    const streams = upstream.opened;
    t.ok(streams <= 5, `${streams} streams for three types`);
    await changes(3);
    t.equal(upstream.opened, streams, 'no further stream has ended');
    t.equal(innocent.removals(CDS).length, 0);
    const { authorities } = (await httpJson(`http://${gateway.admin}/authorities`)) as {
      authorities: readonly { readonly state: string }[];
    };
    t.strictSame(
      authorities.map(({ state }) => state),
      ['primary'],
    );
  },
);

t.test(
  'cold: a client is served at once, although only made-up types were requested before it',
  async (t) => {
    const { gateway, openInnocent, openOthers } = await start(t, '60s');
    openOthers();
    await until('the source has ended the stream', () =>
      gateway.lines.some((line) => line.includes('source_lost')),
    );
    const innocent = openInnocent();
    await until('the innocent client is served', () => isServed(innocent), { timeoutMs: 5_000 });
    t.pass();
  },
);
