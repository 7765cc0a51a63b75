/**
 * Goal: a client that requests a type which its source does not serve does not cut off the other clients of that source, although
 * the source ends the stream of the gateway for it (docs/FAILOVER.md, "Types").
 * Method: a gateway in this process, a source over a real socket, delta clients.
 */
import t from 'tap';
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
const MADE_UP = 'made.up.Type';

t.test(
  'a type that ends the stream of its source is UNAVAILABLE, and all others go on',
  async (t) => {
    const upstream = await ScriptedUpstream.start();
    t.teardown(() => upstream.stop());
    const gateway = await startGateway(
      t,
      `
sources: { s: { target: "127.0.0.1:${upstream.port}", insecure: true, timers: { backoff_base: 20ms, backoff_max: 50ms } } }
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
    upstream.put(CDS, web, bodyOf(web, 1));
    const innocent = open(CDS, web);
    await until('the innocent client is served', () => innocent.held(CDS).has(web));

    const types = ['', '2', '3'].map((suffix) => MADE_UP + suffix);
    const clients = types.map((type) => {
      upstream.unserved.add(`type.googleapis.com/${type}`);
      return open(`type.googleapis.com/${type}`, `xdstp://${AUTHORITY}/${type}/a`);
    });
    const [first] = clients;
    await until('the type is refused', () =>
      first!.errors().some(({ code }) => code === STATUS_CODE.unavailable),
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
