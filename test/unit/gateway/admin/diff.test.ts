/**
 * Goal: a diff compares what the question names, refuses other questions with a correction, and gives its trouble a
 * reason (docs/OPERATIONS.md, "Compare two sources").
 * Method: groups without sources behind them, and a client whose comparisons end as the test says.
 */
import t from 'tap';
import { diff, type Diff } from '../../../../gateway/admin/diff.js';
import type { AdminContext, AdminRequest } from '../../../../gateway/admin/reply.js';
import type { ComparisonEnd } from '../../../../authorities/index.js';

interface Sketch {
  /** By group: the names of its sources. */
  readonly groups?: Readonly<Record<string, readonly string[]>>;
  /** Index of the source in use. */
  readonly active?: number;
  readonly unused?: readonly string[];
  readonly level?: string;
  readonly contentBytes?: number;
  readonly end?: ComparisonEnd;
}

const NO_DIFFERENCE = {
  kind: 'compared',
  same: 1,
  differences: { count: () => 0, rows: () => [] },
} as unknown as ComparisonEnd;

/** A gateway, and the comparisons that it was asked for: `group from→to`. */
function gatewayOf({
  groups = { a: ['one', 'two'] },
  active = 0,
  unused = [],
  level = 'enough',
  contentBytes = 0,
  end = NO_DIFFERENCE,
}: Sketch = {}) {
  const compared: string[] = [];
  const all = Object.entries(groups).map(([id, sources]) => ({
    id,
    demandCount: unused.includes(id) ? 0 : 1,
    failover: { active },
    candidates: sources.map((name) => ({ source: { name } })),
  }));
  const upstream = {
    view: {
      groupsOf: () => all,
      map: { authorities: new Map([['a', {}]]) },
      // `same` has the settings of `two`.
      source: (name: string) => ({ name: name === 'same' ? 'two' : name }),
    },
    compare: (
      group: string,
      { from, to }: { from?: number; to: number },
      _waitMs: number,
      refusal: () => string | undefined,
    ): Promise<ComparisonEnd> => {
      compared.push(`${group} ${from ?? 'served'}→${to}`);
      const reason = refusal();
      return Promise.resolve(reason === undefined ? end : { kind: 'no_room', reason });
    },
    breakerState: () => undefined,
    fileProblems: () => [],
  };
  const gateway = {
    upstream,
    memoryWatch: { level },
    contentTotal: { bytes: contentBytes, maxBytes: 100 },
  };
  const telemetry = { lossOf: () => undefined };
  const context = { gateway, telemetry, clock: () => 0 } as unknown as AdminContext;
  const ask = async (query: string, authority = 'a') => {
    const request = {
      path: `/authorities/${authority}/diff`,
      query: new URLSearchParams(query),
    } as unknown as AdminRequest;
    const { status, body } = await diff(context, request);
    return { status, ...(JSON.parse(body) as Diff & { readonly error: string; hint: string }) };
  };
  return { ask, compared };
}

t.test(
  'without parameters it compares what is served with the other one of two sources',
  async (t) => {
    for (const active of [0, 1]) {
      const { ask, compared } = gatewayOf({ active });
      t.match(await ask(''), {
        status: 200,
        differences: 0,
        groups: [{ group: 'a', from: '(served)', to: ['two', 'one'][active], same: 1 }],
      });
      t.strictSame(compared, [`a served→${1 - active}`]);
    }
    const { ask, compared } = gatewayOf();
    await ask('from=two');
    t.strictSame(compared, ['a 1→0']);
  },
);

t.test(
  'it compares each group that has the source, or the one that the question names',
  async (t) => {
    const groups = {
      'a/x/*': ['one', 'two'],
      'a/y/*': ['one', 'two', 'three'],
      a: ['one', 'four'],
    };
    const asked = async (query: string): Promise<readonly string[]> => {
      const { ask, compared } = gatewayOf({ groups });
      t.match(await ask(query), { status: 200 }, query);
      return compared;
    };
    t.strictSame(await asked('to=two'), ['a/x/* served→1', 'a/y/* served→1']);
    t.strictSame(await asked('to=same'), ['a/x/* served→1', 'a/y/* served→1'], 'equal settings');
    t.strictSame(await asked('to=a/y/*/two'), ['a/y/* served→1']);
    t.strictSame(await asked('to=two&from=a/x/*/one'), ['a/x/* 0→1']);
    t.strictSame(await asked(''), ['a/x/* served→1', 'a served→1'], 'those with two sources');
  },
);

t.test('a question that does not fit the map is refused with a correction', async (t) => {
  const { ask, compared } = gatewayOf({
    groups: { 'a/x/*': ['one', 'two'], a: ['one', 'three', 'two'], idle: ['one', 'nine'] },
    unused: ['idle'],
  });
  t.match(await ask('to=thre'), { status: 400, hint: /did you mean "three"/ });
  t.match(
    await ask('to=nine'),
    { status: 400, error: /"nine" is not a source/ },
    'of no used group',
  );
  t.match(await ask('to=a/x/*/three'), { status: 400, hint: /such as a\/x\/\*\/one/ });
  t.match(await ask('to=a/x/*/two&from=a/one'), { status: 400, error: /fit from and to/ });
  t.match(await ask('to=one&from=one'), { status: 400, error: /fit from and to/ });
  t.match(await ask('to=two&wait=0.5'), { status: 400, error: /^wait: / });
  t.match(await ask('to=two&wait=30s'), { status: 400, error: 'wait: must be at most 20s' });
  t.match(await ask('to=two', 'b'), { status: 404 });
  t.strictSame(compared, []);
  t.match(await gatewayOf({ groups: {} }).ask('to=two'), { status: 409, error: /no client/ });
});

t.test('more than 20 groups are refused, one of them is compared', async (t) => {
  const ids = Array.from({ length: 21 }, (_, n) => `old-style/0 n${n}`);
  const groups = Object.fromEntries(ids.map((id) => [id, ['one', 'two']]));
  const { ask, compared } = gatewayOf({ groups });
  t.match(await ask('to=two'), { status: 400, error: /21 groups.*at most 20/ });
  t.match(await ask('to=old-style/0 n20/two'), { status: 200 });
  t.strictSame(compared, ['old-style/0 n20 served→1']);
});

t.test('without room for the content of one more source there is no comparison', async (t) => {
  const short = await gatewayOf({ level: 'short' }).ask('');
  t.match(short, { status: 503, error: /cannot compare a: the gateway is short of memory/ });
  const full = await gatewayOf({ contentBytes: 81 }).ask('');
  t.match(full, { status: 503, error: /limits\.max_content/ });
  t.match(await gatewayOf({ contentBytes: 80 }).ask(''), { status: 200 });
});

t.test('trouble has a reason', async (t) => {
  const source = { name: 'two', facts: () => ({ live: false }) };
  const unreachable = { kind: 'unreachable', source } as unknown as ComparisonEnd;
  t.match(await gatewayOf({ end: unreachable }).ask(''), {
    status: 502,
    error: 'cannot compare a: source "two": no response in time',
  });
  t.match(await gatewayOf({ end: { kind: 'group_gone' } }).ask(''), {
    status: 409,
    hint: 'try again',
  });
});

t.test('a gateway runs one diff at a time, and the next one after it', async (t) => {
  const { ask } = gatewayOf();
  const [first, second] = await Promise.all([ask(''), ask('')]);
  t.strictSame([first.status, second.status], [200, 503]);
  t.match(await ask(''), { status: 200 });
});
