/**
 * Goal: listeners and routes of a client that returns wait for its request for clusters exactly if it has clusters (ENVOY 24).
 * Method: the first requests of a stream in any order, and a clock.
 */
import t from 'tap';
import {
  ClustersToCome,
  hasClusterMark,
} from '../../../../../gateway/core/session/clusters-to-come.js';
import { CDS, EDS, LDS, RDS, SDS } from '../../../../support/mesh-names.js';

const ACK_DEADLINE_MS = 16_000;
const ENDPOINTS_WAIT_MS = 2_000;
const DIGEST = 'uiYVCPE5bv2CmLiA1m4Vtl';

type Step = readonly [
  typeUrl: string,
  told: 'nothing' | 'versions' | 'mark',
  untilMs: number | undefined,
];

const CASES: Readonly<Record<string, readonly Step[]>> = {
  'a fresh client waits for nothing': [
    [LDS, 'nothing', undefined],
    [RDS, 'nothing', undefined],
    [CDS, 'nothing', undefined],
    [EDS, 'nothing', undefined],
  ],
  'a client that returns with clusters first': [
    [CDS, 'versions', undefined],
    [EDS, 'mark', undefined],
    [LDS, 'versions', undefined],
  ],
  'endpoints first, clusters late': [
    [EDS, 'mark', ACK_DEADLINE_MS],
    [LDS, 'versions', ACK_DEADLINE_MS],
    [RDS, 'versions', ACK_DEADLINE_MS],
    [CDS, 'versions', undefined],
  ],
  'listeners and routes before endpoints': [
    [SDS, 'versions', undefined],
    [LDS, 'versions', ENDPOINTS_WAIT_MS],
    [RDS, 'versions', ENDPOINTS_WAIT_MS],
    [EDS, 'mark', ACK_DEADLINE_MS],
    [CDS, 'versions', undefined],
  ],
  'listeners before clusters': [
    [LDS, 'versions', ENDPOINTS_WAIT_MS],
    [CDS, 'versions', undefined],
    [EDS, 'mark', undefined],
  ],
  'endpoints without clusters': [
    [RDS, 'versions', ENDPOINTS_WAIT_MS],
    [EDS, 'versions', undefined],
    [LDS, 'versions', undefined],
  ],
};

for (const [title, steps] of Object.entries(CASES)) {
  t.test(title, (t) => {
    const clusters = new ClustersToCome(ACK_DEADLINE_MS);
    for (const [typeUrl, told, untilMs] of steps) {
      clusters.handleFirst(typeUrl, { isResumed: told !== 'nothing', hasMark: told === 'mark' }, 0);
      t.equal(clusters.untilMs, untilMs);
    }
    t.end();
  });
}

t.test('a client owes the request for its clusters until it comes', (t) => {
  const facts = ({ areThere, areOwed }: ClustersToCome) => ({ areThere, areOwed });
  const clusters = new ClustersToCome(ACK_DEADLINE_MS);
  t.strictSame(facts(clusters), { areThere: false, areOwed: false });
  clusters.handleFirst(EDS, { isResumed: true, hasMark: true }, 0);
  t.strictSame(facts(clusters), { areThere: true, areOwed: true });
  clusters.handleFirst(CDS, { isResumed: true, hasMark: false }, 0);
  t.strictSame(facts(clusters), { areThere: true, areOwed: false });
  t.end();
});

t.test('the wait for endpoints runs from the first request that waits', (t) => {
  const clusters = new ClustersToCome(ACK_DEADLINE_MS);
  clusters.handleFirst(LDS, { isResumed: true, hasMark: false }, 1_000);
  clusters.handleFirst(RDS, { isResumed: true, hasMark: false }, 2_000);
  t.equal(clusters.untilMs, 1_000 + ENDPOINTS_WAIT_MS);
  t.end();
});

t.test('versions of other servers have no mark, whatever dots they have', (t) => {
  for (const version of [`${DIGEST}.c`, `${DIGEST}+.c`, `${DIGEST}.AbCd_-12`])
    t.equal(hasClusterMark(version), true, version);
  for (const version of ['', '1.2.0', '1.c', DIGEST, `${DIGEST}+`, `${DIGEST}.12`, `x${DIGEST}.c`])
    t.equal(hasClusterMark(version), false, version);
  t.end();
});
