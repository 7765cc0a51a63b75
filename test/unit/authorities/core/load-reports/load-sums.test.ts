/**
 * Goal: the loads of clients add up by cluster, service, locality and priority (load_report.proto), and
 * memory stays bounded.
 */
import t from 'tap';
import { ClientGauges } from '../../../../../authorities/core/load-reports/client-gauges.js';
import { LoadSums, type Wanted } from '../../../../../authorities/core/load-reports/load-sums.js';
import type { ClusterLoad, EndpointLoad } from '../../../../../protos/load-stats.js';
import { MAX_COUNT } from '../../../../../protos/load-stats.js';
import { clusterLoad } from '../../../../support/loads.js';

const ALL: Wanted = { isAsked: () => true, byEndpoint: true };

function sumsOf(maxEntries = 1_000) {
  const sums = new LoadSums({ maxEntries });
  const take = (wanted = ALL): readonly ClusterLoad[] => sums.take(10, wanted);
  return { sums, take };
}

t.test('counters of all clients add up, and start again at zero with each report', (t) => {
  const { sums, take } = sumsOf();
  const [one, two] = [new ClientGauges(), new ClientGauges()];
  sums.add(clusterLoad('c', [{ successful: 1, failed: 2, issued: 3 }]), true, one);
  sums.add(clusterLoad('c', [{ successful: 10, failed: 20, issued: 30 }]), true, two);
  t.match(take(), [
    {
      clusterName: 'c',
      intervalMs: 10,
      localities: [{ requests: { successful: 11, failed: 22, issued: 33, inProgress: 0 } }],
    },
  ]);
  t.strictSame(take(), []);
  t.equal(sums.isEmpty, true);
  t.equal(sums.entryCount, 0);
  t.end();
});

t.test('service names, localities and priorities are kept apart', (t) => {
  const { sums, take } = sumsOf();
  const gauges = new ClientGauges();
  for (const load of [
    clusterLoad('c', [{ successful: 1 }, { successful: 2, priority: 1 }]),
    clusterLoad('c', [{ successful: 4, zone: 'b' }]),
    clusterLoad('c', [{ successful: 8 }], { serviceName: 's' }),
  ])
    sums.add(load, true, gauges);
  const taken = take().map(({ serviceName, localities }) => [
    serviceName,
    localities.map(({ locality, priority, requests }) => [
      locality.zone,
      priority,
      requests.successful,
    ]),
  ]);
  t.strictSame(taken, [
    [
      '',
      [
        ['a', 0, 1],
        ['a', 1, 2],
        ['b', 0, 4],
      ],
    ],
    ['s', [['a', 0, 8]]],
  ]);
  t.end();
});

t.test('a gauge is the sum of the latest report of each client', (t) => {
  const { sums, take } = sumsOf();
  const [one, two] = [new ClientGauges(), new ClientGauges()];
  const inProgress = (): unknown => take()[0]?.localities[0]?.requests.inProgress;
  const connections = { opened: 0, failed: 0, active: 3 };
  sums.add(clusterLoad('c', [{ inProgress: 5, more: { connections } }]), true, one);
  sums.add(clusterLoad('c', [{ inProgress: 7 }]), true, two);
  t.equal(inProgress(), 12);
  t.equal(inProgress(), 12, 'it stays while no client reports');
  one.clear();
  sums.add(clusterLoad('c', [{ inProgress: 1 }]), true, one);
  t.match(take(), [{ localities: [{ requests: { inProgress: 8 }, connections: { active: 0 } }] }]);
  two.clear();
  t.equal(inProgress(), 1, 'a client that left has none');
  one.clear();
  t.strictSame(take(), []);
  t.equal(sums.isEmpty, true);
  t.end();
});

t.test(
  'drops, metrics and connections add up; a value that is not a number counts as zero',
  (t) => {
    const { sums, take } = sumsOf();
    const gauges = new ClientGauges();
    for (const total of [1.5, NaN, 2]) {
      const metric = { finished: 1, total };
      const more = {
        connections: { opened: 1, failed: 2, active: 0 },
        metrics: new Map([['m', metric]]),
        utilizations: new Map([['cpu', metric] as const]),
      };
      const drops = { dropped: 3, droppedBy: new Map([['overload', 2]]) };
      sums.add(clusterLoad('c', [{ more }], drops), true, gauges);
    }
    const sum = { finished: 3, total: 3.5 };
    t.match(take(), [
      {
        dropped: 9,
        droppedBy: new Map([['overload', 6]]),
        localities: [
          {
            connections: { opened: 3, failed: 6 },
            metrics: new Map([['m', sum]]),
            utilizations: new Map([['cpu', sum]]),
          },
        ],
      },
    ]);
    t.equal(sums.entryCount, 0);
    t.end();
  },
);

t.test('loads of single endpoints add up if the source asks for them', (t) => {
  const { sums, take } = sumsOf();
  const gauges = new ClientGauges();
  const endpoint = (port: number, metadata?: Uint8Array): EndpointLoad => ({
    address: Uint8Array.of(port),
    ...(metadata ? { metadata } : {}),
    requests: { successful: 1, failed: 0, issued: 1, inProgress: 2 },
    metrics: new Map([['m', { finished: 1, total: 1 }]]),
  });
  const add = (byEndpoint: boolean): void => {
    const more = { endpoints: [endpoint(1), endpoint(2, Uint8Array.of(9))] };
    sums.add(clusterLoad('c', [{ successful: 2, more }]), byEndpoint, gauges);
  };
  add(true);
  add(true);
  const long = endpoint(2, new Uint8Array(2_000));
  sums.add(clusterLoad('c', [{ more: { endpoints: [long] } }]), true, gauges);
  const [taken] = take();
  t.match(taken?.localities[0]?.endpoints, [
    { address: Uint8Array.of(1), requests: { successful: 2, issued: 2, inProgress: 4 } },
    // The metadata is the latest that is not too long.
    { metadata: Uint8Array.of(9), metrics: new Map([['m', { finished: 3, total: 3 }]]) },
  ]);
  t.equal(take()[0], undefined, 'gauges of endpoints alone are not the load of a locality');
  gauges.clear();
  add(false);
  t.strictSame(take()[0]?.localities[0]?.endpoints, []);
  add(true);
  t.strictSame(take({ ...ALL, byEndpoint: false })[0]?.localities[0]?.endpoints, []);
  gauges.clear();
  take();
  t.equal(sums.entryCount, 0);
  t.end();
});

t.test('a report has only the clusters that the source asked for', (t) => {
  const { sums, take } = sumsOf();
  for (const name of ['a', 'b']) {
    sums.add(clusterLoad(name, [{ successful: 1 }]), true, new ClientGauges());
  }
  const taken = take({ ...ALL, isAsked: (name) => name === 'b' });
  t.strictSame(
    taken.map(({ clusterName }) => clusterName),
    ['b'],
  );
  t.strictSame(take(), [], 'the loads of others do not wait');
  t.end();
});

t.test('clusters and localities without load cost nothing', (t) => {
  const { sums, take } = sumsOf();
  sums.add(clusterLoad('c', [{}, { zone: 'b' }]), true, new ClientGauges());
  t.equal(sums.entryCount, 0);
  t.strictSame(take(), []);
  t.end();
});

t.test('the number and size of entries is bounded, whatever clients invent', (t) => {
  const { sums, take } = sumsOf(3);
  const gauges = new ClientGauges();
  const zones = ['a', 'b', 'c', 'd'].map((zone) => ({ zone, successful: 1, inProgress: 1 }));
  sums.add(clusterLoad('c', zones), true, gauges);
  t.equal(sums.entryCount, 3);
  t.equal(sums.takeRefused(), 2);
  sums.add(clusterLoad('c', [{ successful: 1 }]), true, gauges);
  t.equal(sums.takeRefused(), 0, 'known entries always count');
  t.equal(take()[0]?.localities[0]?.requests.successful, 2);
  gauges.clear();
  take();
  const long = 'x'.repeat(2_000);
  sums.add(clusterLoad('c', [{ zone: long, successful: 1 }]), true, gauges);
  sums.add(clusterLoad('c', [], { serviceName: long, dropped: 1 }), true, gauges);
  t.equal(sums.takeRefused(), 2);
  t.equal(sums.entryCount, 1);
  t.end();
});

t.test(
  'categories, endpoints and metrics above the bound are left out; the rest of the load counts',
  (t) => {
    const { sums, take } = sumsOf(3);
    const requests = { successful: 1, failed: 0, issued: 1, inProgress: 0 };
    const endpoint = { address: Uint8Array.of(1), requests, metrics: new Map() };
    const more = { metrics: new Map([['m', { finished: 1, total: 1 }]]), endpoints: [endpoint] };
    // The cluster, its locality and one category fill the sums.
    sums.add(clusterLoad('c', [{ successful: 1 }]), true, new ClientGauges());
    const droppedBy = new Map([
      ['overload', 2],
      ['throttle', 3],
    ]);
    const load = clusterLoad('c', [{ successful: 1, more }], { dropped: 5, droppedBy });
    sums.add(load, true, new ClientGauges());
    t.equal(sums.takeRefused(), 3, 'a category, a metric and an endpoint');
    const [taken] = take();
    t.match(taken, { dropped: 5, localities: [{ requests: { successful: 2 } }] });
    t.strictSame(taken?.droppedBy, new Map([['overload', 2]]));
    t.strictSame(taken?.localities[0]?.metrics, new Map());
    t.strictSame(taken?.localities[0]?.endpoints, []);
    t.end();
  },
);

t.test('a counter stays at the largest exact number, and a gauge of one client is bounded', (t) => {
  const { sums, take } = sumsOf();
  const [huge, other] = [new ClientGauges(), new ClientGauges()];
  const load = { successful: MAX_COUNT, inProgress: MAX_COUNT };
  sums.add(clusterLoad('c', [load]), true, huge);
  sums.add(clusterLoad('c', [{ successful: 5, inProgress: 5 }]), true, other);
  t.match(take()[0]?.localities[0]?.requests, {
    successful: MAX_COUNT,
    inProgress: 2 ** 32 + 5,
  });
  huge.clear();
  t.match(take()[0]?.localities[0]?.requests, { inProgress: 5 }, 'the others stay exact');
  t.end();
});
