/**
 * Goal: the clusters of an assignment are those that take their endpoints from it now (ENVOY 5).
 * Method: clusters that are put, moved to another assignment and dropped.
 */
import t from 'tap';
import { ClusterEdges } from '../../../../../gateway/core/cache/cluster-edges.js';
import { projectionOf } from '../../../../support/fake-directory.js';
import { CDS, EDS, cds, eds } from '../../../../support/mesh-names.js';

const cluster = (id: string, edsId?: string) =>
  projectionOf(CDS, cds(id), 'v1', edsId === undefined ? undefined : eds(edsId));
const idsOf = (edges: ClusterEdges, edsId: string): readonly string[] =>
  [...edges.clustersOf(eds(edsId))].map(({ name }) => name.id);

t.test('several clusters may share an assignment', (t) => {
  const edges = new ClusterEdges();
  edges.handleChanged(cluster('a', 'e'), undefined);
  edges.handleChanged(cluster('b', 'e'), undefined);
  t.strictSame(idsOf(edges, 'e'), ['a', 'b']);
  edges.drop(cluster('a', 'e'));
  t.strictSame(idsOf(edges, 'e'), ['b']);
  edges.drop(cluster('b', 'e'));
  t.strictSame(idsOf(edges, 'e'), []);
  edges.drop(cluster('b', 'e'));
  t.end();
});

t.test('a cluster that takes another assignment leaves the first', (t) => {
  const edges = new ClusterEdges();
  edges.handleChanged(cluster('a', 'one'), undefined);
  edges.handleChanged(cluster('a', 'two'), cluster('a', 'one'));
  t.strictSame([idsOf(edges, 'one'), idsOf(edges, 'two')], [[], ['a']]);
  edges.handleChanged(cluster('a'), cluster('a', 'two'));
  t.strictSame(idsOf(edges, 'two'), [], 'its endpoints are inline now');
  t.end();
});

t.test('a new version of a cluster replaces the old one', (t) => {
  const edges = new ClusterEdges();
  const [before, after] = ['v1', 'v2'].map((content) =>
    projectionOf(CDS, cds('a'), content, eds('e')),
  );
  edges.handleChanged(before!, undefined);
  edges.handleChanged(after!, before);
  t.strictSame([...edges.clustersOf(eds('e'))], [after]);
  t.end();
});

t.test('a resource without an assignment has no edge', (t) => {
  const edges = new ClusterEdges();
  const assignment = projectionOf(EDS, eds('e'), 'v1');
  edges.handleChanged(assignment, undefined);
  edges.drop(assignment);
  t.strictSame([...edges.clustersOf(eds('e'))], []);
  t.end();
});
