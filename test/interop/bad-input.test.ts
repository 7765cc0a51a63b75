/**
 * Goal: bad input is data. Bad input of a client or a source costs at most its own stream or name,
 * is counted, and affects no other client or authority.
 * Method: the gateway as a process; a correct source and a hostile one; a witness client that
 * subscribes both and receives a change of the correct source after every attack.
 */
import { connect } from 'node:net';
import { once } from 'node:events';

import t, { type Test } from 'tap';

import { DeltaClient } from '../support/delta-client.js';
import { encodeRequest } from '../support/discovery-messages.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { openUnreadStream } from '../support/unread-stream.js';
import { until, within } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { skipWithoutGateway } from './peers/gateway.js';
import {
  assignmentBody,
  canary,
  counts,
  good,
  innocent,
  kept,
  nextSalt,
  nobodyElseNotices,
  startSiege,
  type Siege,
} from './peers/siege.js';

t.setTimeout(120_000);

const skip = skipWithoutGateway();
const MiB = 1_024 * 1_024;
const ASSIGNMENT = TYPE_URLS.assignment;
const BIG = 'type.googleapis.com/example.Big';
const status = { invalidArgument: 3, notFound: 5, resourceExhausted: 8, unimplemented: 12 };

async function endsWith(client: DeltaClient, code: number): Promise<void> {
  const ended = await until('the stream ends', () => client.status);
  if (ended.code !== code) throw new Error(`${ended.code} ${ended.details}, not ${code}`);
}

function rogue(t: Test, { gateway }: Siege): DeltaClient {
  const client = new DeltaClient({ port: gateway.port });
  t.teardown(() => {
    client.close();
  });
  return client;
}

async function clientsMisbehave(t: Test, rig: Siege): Promise<void> {
  const { gateway, goodSource } = rig;
  const memoryBytes = (): Promise<number> => gateway.metric('process_resident_memory_bytes');
  const subscribe = (count: number): readonly string[] =>
    Array.from({ length: count }, (_, index) => xdstpName(good, 'assignment', `edge/n${index}`));

  await t.test('an unreadable request ends that stream: INVALID_ARGUMENT', async (t) => {
    const client = rogue(t, rig);
    await counts(t, rig, 'tributary_client_malformed_total', {}, () => {
      client.sendBytes(Buffer.from('0aff', 'hex'));
      return endsWith(client, status.invalidArgument);
    });
    await nobodyElseNotices(t, rig);
  });

  await t.test('a request without a type ends that stream: INVALID_ARGUMENT', async (t) => {
    const client = rogue(t, rig);
    client.send({ subscribe: [canary] });
    await endsWith(client, status.invalidArgument);
    await nobodyElseNotices(t, rig);
  });

  await t.test('more names than a request may have end that stream', async (t) => {
    const client = rogue(t, rig);
    await counts(t, rig, 'tributary_client_malformed_total', {}, () => {
      client.send({ typeUrl: ASSIGNMENT, subscribe: subscribe(10_001) });
      return endsWith(client, status.resourceExhausted);
    });
    await nobodyElseNotices(t, rig);
  });

  await t.test('a request over 4 MiB ends that stream: RESOURCE_EXHAUSTED', async (t) => {
    const client = rogue(t, rig);
    client.sendBytes(Buffer.alloc(4 * MiB + 1));
    await endsWith(client, status.resourceExhausted);
    await nobodyElseNotices(t, rig);
  });

  await t.test('bytes that are not HTTP/2 end that connection', async (t) => {
    const socket = connect(gateway.port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.resume();
    const closed = once(socket, 'close');
    socket.write(Buffer.alloc(64 * 1_024, 0xff));
    await within('the connection is closed', 15_000, closed);
    await nobodyElseNotices(t, rig);
  });

  await t.test(
    'each wrong name gets its error and a removal, beside the right ones (TP3)',
    async (t) => {
      const client = rogue(t, rig);
      const wrong = new Map([
        ['*', status.unimplemented],
        ['old-style', status.unimplemented],
        ['xdstp://', status.invalidArgument],
        [`xdstp://${good}/no-path`, status.invalidArgument],
        [xdstpName(good, 'assignment', '%zz'), status.invalidArgument],
        [xdstpName('nobody.example.com', 'assignment', 'edge/x'), status.notFound],
      ]);
      await counts(t, rig, 'tributary_client_refused_names_total', {}, () => {
        client.subscribe(ASSIGNMENT, [...wrong.keys(), canary]);
        return until('all are answered', () => client.errors().length >= wrong.size);
      });
      await until('the right one is there', () => client.held(ASSIGNMENT).has(canary));
      const told = new Map(client.errors().map(({ name, code }) => [name, code]));
      t.strictSame([...told].sort(), [...wrong].sort());
      t.strictSame([...new Set(client.removals(ASSIGNMENT))].sort(), [...wrong.keys()].sort());
      t.equal(client.status, undefined, 'the stream continues');
      await nobodyElseNotices(t, rig);
    },
  );

  await t.test('an unknown type is requested upstream and answered: removed', async (t) => {
    const client = rogue(t, rig);
    const typeUrl = 'type.googleapis.com/no.such.Type';
    const name = `xdstp://${good}/no.such.Type/edge/x`;
    client.subscribe(typeUrl, [name]);
    await until('it is answered', () => client.removals(typeUrl).includes(name));
    t.equal(client.status, undefined, 'the stream continues');
    await nobodyElseNotices(t, rig);
  });

  await t.test(
    'a client that never reads is paused, and changes are not written to it',
    async (t) => {
      const put = (round: number): void => {
        for (let index = 0; index < 40; index += 1) {
          const name = `xdstp://${good}/example.Big/edge/${index}`;
          goodSource.put(BIG, name, Buffer.alloc(MiB / 4, round * 40 + index));
        }
      };
      put(0);
      const subscribe = [`xdstp://${good}/example.Big/edge/*`];
      const request = encodeRequest({ type_url: BIG, resource_names_subscribe: subscribe });
      const session = openUnreadStream(gateway.port, request);
      t.teardown(() => {
        session.destroy();
      });
      const paused = (): Promise<number> => gateway.metric('tributary_clients_paused');
      await until('it is known to be paused', async () => (await paused()) === 1);
      const sentBytes = (): Promise<number> =>
        gateway.metric('tributary_client_bytes_total', { authority: good, type: 'Big' });
      const [settledBytes, settledMemoryBytes] = [await sentBytes(), await memoryBytes()];
      for (let round = 1; round <= 5; round += 1) {
        put(round);
        await nobodyElseNotices(t, rig);
      }
      t.equal(await sentBytes(), settledBytes, 'no more is written to it');
      const grownBytes = (await memoryBytes()) - settledMemoryBytes;
      t.comment(`${settledBytes} bytes were written to it`);
      t.comment(`after 50 MiB of changes, memory grew by ${Math.round(grownBytes / MiB)} MiB`);
      t.ok(grownBytes < 150 * MiB, 'memory is bounded by the existing content');
      session.destroy();
      await until('it is gone', async () => (await gateway.metric('tributary_clients')) === 1);
    },
  );
}

/** A wrong resource, sent beside a right one. */
interface WrongResource {
  readonly what: string;
  readonly resource: {
    readonly name: string;
    readonly typeUrl?: string;
    readonly body: Uint8Array;
  };
}

const wrongResources: readonly WrongResource[] = [
  {
    what: 'a resource of an authority that the source does not serve',
    resource: { name: canary, body: assignmentBody(canary, 666) },
  },
  { what: 'an invalid name', resource: { name: 'xdstp://', body: new Uint8Array() } },
  {
    what: 'a resource of another type than the response',
    resource: { name: kept, typeUrl: TYPE_URLS.cluster, body: new Uint8Array() },
  },
  {
    what: 'a body that is not protobuf',
    resource: { name: kept, body: Buffer.from('0aff', 'hex') },
  },
];

async function sourcesMisbehave(t: Test, rig: Siege): Promise<void> {
  const { badSource, witness, gateway } = rig;
  const heldBefore = new Map(witness.held(ASSIGNMENT));
  const label = { source: 'bad' };

  /** Waits until the hostile source is connected again, and its valid resources are served. */
  const believedAgain = async (t: Test): Promise<void> => {
    await until('the source gets subscriptions again', () =>
      badSource.isAsked(ASSIGNMENT, innocent),
    );
    const before = witness.bodies().filter((name) => name === innocent).length;
    badSource.put(ASSIGNMENT, innocent, assignmentBody(innocent, nextSalt()));
    await until('its valid resource is served', () => {
      return witness.bodies().filter((name) => name === innocent).length > before;
    });
    const held = witness.held(ASSIGNMENT).get(kept);
    t.equal(held, heldBefore.get(kept), 'content held before is unchanged');
  };

  for (const { what, resource } of wrongResources) {
    await t.test(
      `${what} is refused (NACK), and the rest of the response is accepted`,
      async (t) => {
        const nacks = badSource.nacks.length;
        const refused = 'tributary_source_refused_resources_total';
        await counts(t, rig, refused, label, async () => {
          const before = witness.bodies().filter((name) => name === innocent).length;
          const right = {
            name: innocent,
            version: 'r',
            body: assignmentBody(innocent, nextSalt()),
          };
          badSource.respond({
            typeUrl: ASSIGNMENT,
            resources: [{ ...resource, version: 'w' }, right],
          });
          await until('it is refused', () => badSource.nacks.length > nacks);
          await until('the right one is served', () => {
            return witness.bodies().filter((name) => name === innocent).length > before;
          });
        });
        t.match(badSource.nacks.at(-1), resource.name, 'the NACK names it');
        await believedAgain(t);
        await nobodyElseNotices(t, rig);
      },
    );
  }

  await t.test('a response with a name twice is refused as a whole (xDS protocol)', async (t) => {
    const nacks = badSource.nacks.length;
    await counts(t, rig, 'tributary_source_nacks_total', label, async () => {
      const twice = { name: kept, version: 'w', body: assignmentBody(kept, 666) };
      badSource.respond({ typeUrl: ASSIGNMENT, resources: [twice, twice] });
      await until('it is refused', () => badSource.nacks.length > nacks);
    });
    await believedAgain(t);
    await nobodyElseNotices(t, rig);
  });

  const attacks: readonly { readonly what: string; readonly bytes: () => Uint8Array }[] = [
    { what: 'an unreadable response', bytes: () => Buffer.from('12ff', 'hex') },
    {
      what: '4 MiB of empty resources, counted before one is decoded,',
      bytes: () => Buffer.alloc(4 * MiB, Buffer.from('1200', 'hex')),
    },
  ];
  for (const { what, bytes } of attacks) {
    await t.test(`${what} from a source cost its stream, but no held content`, async (t) => {
      const { opened } = badSource;
      const memory = await gateway.metric('process_resident_memory_bytes');
      await counts(t, rig, 'tributary_source_malformed_total', label, () => {
        badSource.sendBytes(bytes());
        return until('the gateway opens another stream', () => badSource.opened > opened);
      });
      const grown = (await gateway.metric('process_resident_memory_bytes')) - memory;
      t.comment(`memory grew by ${Math.round(grown / MiB)} MiB`);
      await nobodyElseNotices(t, rig);
      await believedAgain(t);
    });
  }

  await t.test('a response over the limit costs the stream, and is not a trip', async (t) => {
    const { opened } = badSource;
    const trips = await gateway.metric('tributary_source_trips_total', label);
    const ends = 'tributary_source_stream_ends_total';
    await counts(t, rig, ends, { ...label, reason: 'oversize' }, () => {
      badSource.sendBytes(Buffer.alloc(17 * MiB));
      return until('the gateway opens another stream', () => badSource.opened > opened);
    });
    t.equal(await gateway.metric('tributary_source_trips_total', label), trips);
    await nobodyElseNotices(t, rig);
    await believedAgain(t);
  });
}

t.test('bad input costs its own stream or name, and no other', { skip }, async (t) => {
  const rig = await startSiege(t);
  await tellingLogs([rig.gateway], async () => {
    await clientsMisbehave(t, rig);
    await sourcesMisbehave(t, rig);
  });
});
