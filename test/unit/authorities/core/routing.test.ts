/**
 * Goal: each name has one group, by the map and by the alternatives in references to it, and moves there
 * when these change (RESOLUTION.md, "Alternatives").
 * Method: a Routing with groups and sources of its own, and watches that the test makes.
 */
import t from 'tap';
import { TurnRoom } from '../../../../authorities/core/failover/turn-room.js';
import { Groups } from '../../../../authorities/core/failover/groups.js';
import { NodeGroups } from '../../../../authorities/core/node-groups/node-groups.js';
import type { Projection } from '../../../../authorities/core/projection.js';
import { Routing } from '../../../../authorities/core/routing.js';
import { Sources } from '../../../../authorities/core/sources/sources.js';
import { Watches, type Watched } from '../../../../authorities/core/watches.js';
import type { ResourceWatcher } from '../../../../authorities/core/watcher.js';
import { parseResourceLocator } from '../../../../protos/resource-name.js';
import { askedName, mapOf, nameOf, thing, THING } from '../../../support/federation-driver.js';
import { projectionOf } from '../../../support/fake-directory.js';

const WATCHER = {} as ResourceWatcher;

function setUp() {
  const map = mapOf({
    authorities: {
      cloud: { sources: ['c'], mayLeadTo: ['onprem'] },
      onprem: { sources: ['o'] },
    },
  });
  const groups = new Groups(new TurnRoom());
  const options = {
    nodeFor: () => new Uint8Array(),
    maxResourcesPerResponse: 100,
    random: () => 0.5,
  };
  const sources = new Sources(options, map, () => undefined);
  const watches = new Watches();
  const routing = new Routing({
    map: () => map,
    sourceOf: (name) => sources.get(name),
    watches,
    groups,
    nodeGroups: new NodeGroups(sources, groups),
  });
  const watch = (text: string, typeUrl = THING): Watched =>
    watches.add(typeUrl, askedName(text, typeUrl), WATCHER);
  return { routing, watch };
}

const idOf = ({ group }: Watched): string | undefined =>
  group && 'id' in group ? group.id : undefined;

/** A resource with a reference to `cloud/…/a` that has an alternative. */
function holderOf(...alternatives: readonly string[]): Projection {
  const locators = alternatives.map((id) => {
    const read = parseResourceLocator(`${thing('cloud', 'a')}#alt=${thing('onprem', id)}`);
    if (!read.ok) throw new Error(read.error.message);
    return read.value;
  });
  return { ...projectionOf(THING, thing('cloud', 'holder'), 'v1'), alternatives: locators };
}

t.test('names of one authority share a group; without an authority there is no route', (t) => {
  const { routing, watch } = setUp();
  const [a, b, foreign] = [
    watch(thing('cloud', 'a')),
    watch(thing('cloud', 'b')),
    thing('no', 'a'),
  ];
  t.ok(routing.route(a, 0));
  t.ok(routing.route(b, 0));
  t.equal(a.group, b.group);
  t.equal(routing.groupFor(a.name), a.group);
  t.equal(a.group?.served(THING, a.name), undefined, 'the source said nothing yet');
  t.notOk(routing.route(watch(foreign), 0));
  t.equal(routing.groupFor(nameOf(foreign)), undefined);
  routing.leave(a, 0);
  t.equal(routing.groupFor(b.name)?.demandCount, 1);
  routing.leave(watch(foreign), 0);
  t.end();
});

t.test('old-style names without an entry in the map have no route', (t) => {
  const { routing, watch } = setUp();
  t.notOk(routing.route(watch('\n\nold'), 0));
  t.end();
});

t.test('a name with an alternative of its own has a group for its chain of authorities', (t) => {
  const { routing, watch } = setUp();
  const plain = watch(thing('cloud', 'a'));
  const own = watch(`${thing('cloud', 'b')}#alt=${thing('onprem', 'x')}`);
  routing.route(plain, 0);
  routing.route(own, 0);
  t.strictSame([idOf(plain), idOf(own)], ['cloud', 'cloud#alt=onprem']);
  const [group, chained] = [routing.groupFor(plain.name), routing.groupFor(own.name)];
  t.strictSame(
    [group && routing.hasOwnAlternatives(group), chained && routing.hasOwnAlternatives(chained)],
    [false, true],
  );
  t.strictSame(
    chained?.candidates.map(({ source }) => source.name),
    ['c', 'o'],
  );
  if (chained) routing.forget(chained);
  t.equal(chained && routing.hasOwnAlternatives(chained), false);
  t.end();
});

t.test('a reference with an alternative moves the name, and back when it goes', (t) => {
  const { routing, watch } = setUp();
  const a = watch(thing('cloud', 'a'));
  routing.route(a, 0);
  routing.handleChanged(holderOf('x'), 0);
  t.equal(idOf(a), 'cloud#alt=onprem');
  t.equal(routing.groupFor(a.name), a.group);
  routing.handleGone(THING, nameOf(thing('cloud', 'holder')), 0);
  t.equal(idOf(a), 'cloud');
  t.end();
});

t.test('another alternative at the same authority leaves the name in its group', (t) => {
  const { routing, watch } = setUp();
  const a = watch(thing('cloud', 'a'));
  routing.route(a, 0);
  routing.handleChanged(holderOf('x'), 0);
  const { group } = a;
  const atOnprem = (): string | undefined =>
    routing.groupFor(a.name)?.candidates[1]?.mapping.toSource(a.name).key;
  t.equal(atOnprem(), thing('onprem', 'x'));
  routing.handleChanged(holderOf('y'), 0);
  t.equal(a.group, group);
  t.equal(atOnprem(), thing('onprem', 'y'));
  t.end();
});

t.test('the last watcher of a resource takes the alternatives in its references with it', (t) => {
  const { routing, watch } = setUp();
  const a = watch(thing('cloud', 'a'));
  routing.route(a, 0);
  const holder = watch(thing('cloud', 'holder'));
  routing.handleChanged(holderOf('x'), 0);
  routing.handleUnwatched(holder, () => true, 0);
  t.equal(idOf(a), 'cloud#alt=onprem', 'its glob is still watched');
  routing.handleUnwatched(holder, () => false, 0);
  t.equal(idOf(a), 'cloud');
  t.end();
});
