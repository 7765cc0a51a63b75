/** Faults between instances, and messages of senders that are not instances. */
import { encodePeerMessage, type PeerMessage } from '../../gateway/core/peers/peer-message.js';
import type { ResourceName } from '../../protos/resource-name.js';
import type { ExtraFault } from './extra-fault.js';
import { nameText, TYPES } from './names.js';
import type { Nats } from './nats.js';
import { parsedName } from './parsed-names.js';
import type { Random } from './random.js';
import type { Scene } from './scene.js';

const natsOf = ({ peerNet }: Scene): Nats => peerNet!.nats;

export const NATS_FAULTS: Readonly<Record<string, ExtraFault>> = {
  nats_loses: (scene, dice) => {
    natsOf(scene).lost = dice.pick([0, 0.3, 1]);
  },
  nats_doubles: (scene, dice) => {
    natsOf(scene).doubled = dice.pick([0, 0.5]);
  },
  nats_restarts: (scene, dice) => {
    natsOf(scene).restart(dice.between(1, 20_000));
  },
  nats_cuts: (scene, dice) => {
    const { members } = natsOf(scene);
    if (members.length > 0) natsOf(scene).cut(dice.pick(members));
  },
  nats_stalls: (scene, dice) => {
    const { members } = natsOf(scene);
    if (members.length > 0) natsOf(scene).stall(dice.pick(members), dice.between(100, 20_000));
  },
  nats_partition: (scene, dice) => {
    const { members } = natsOf(scene);
    if (members.length < 2) return;
    const [one, other] = [dice.pick(members), dice.pick(members)];
    natsOf(scene).partition(one, other, dice.between(1_000, 60_000));
  },
  replay: (scene, dice) => {
    for (const bytes of dice.some(natsOf(scene).past, 0.3)) say(scene, bytes);
  },
  forge: (scene, dice) => {
    for (let count = dice.between(1, 5); count > 0; count--) say(scene, forged(scene, dice));
  },
  garbage: (scene, dice) => {
    const bytes = Buffer.from(forged(scene, dice));
    const kind = dice.below(3);
    if (kind === 0) say(scene, bytes.subarray(0, dice.below(bytes.length)));
    else if (kind === 1) say(scene, Buffer.alloc(17 * 1_024, 0x20));
    else {
      bytes[dice.below(bytes.length)] = dice.below(256);
      say(scene, bytes);
    }
  },
  flood: (scene, dice) => {
    for (let count = 0; count < 250; count++) {
      const group = `group${dice.below(1_000)}`;
      say(scene, encodePeerMessage('forger', { kind: 'switched', group, to: 'x' }));
    }
  },
  order: (scene, dice) => {
    const { peer } = dice.pick(scene.instances);
    const text = anyName(scene, dice);
    const [typeUrl, name] = nameOf(text);
    const { authority } = name;
    if (dice.chance(0.5)) peer?.invalidate(typeUrl, name);
    else peer?.invalidateAuthority(authority);
  },
};

/** To all members: a publisher can also forge the sender. */
function say(scene: Scene, bytes: Uint8Array): void {
  const nats = natsOf(scene);
  for (const member of nats.members) nats.inject(member, bytes);
}

type Named = readonly [string, ResourceName];

const nameOf = ([typeUrl, text]: readonly [string, string]): Named => [typeUrl, parsedName(text)];

function anyName({ spec, map }: Scene, dice: Random): readonly [string, string] {
  const typeUrl = dice.pick(TYPES);
  const authority = dice.pick([...map.authorities.keys(), 'stranger']);
  return [typeUrl, nameText(authority, typeUrl, dice.pick([...spec.ids, '*']))];
}

function forged(scene: Scene, dice: Random): Uint8Array {
  const from = dice.pick(['forger', ...scene.instances.map(({ process }) => process)]);
  return encodePeerMessage(from, forgedMessage(scene, dice));
}

function forgedMessage(scene: Scene, dice: Random): PeerMessage {
  const [typeUrl, name] = nameOf(anyName(scene, dice));
  switch (dice.below(5)) {
    case 0:
      return { kind: 'invalidate', typeUrl, name };
    case 1:
      return { kind: 'invalidate_authority', authority: name.authority };
    case 2: {
      const hash = String(dice.below(10));
      const row = { typeUrl, authority: name.authority, count: dice.below(10), hash };
      return { kind: 'digest', rows: [row], isQuestion: dice.chance(0.5) };
    }
    case 3: {
      const groups = dice.pick(scene.instances).federation.groups.map(({ id }) => id);
      return { kind: 'switched', group: dice.pick([...groups, 'no group']), to: 'x' };
    }
    default: {
      const hints = Array.from({ length: dice.between(1, 20) }, () => {
        const [type, one] = nameOf(anyName(scene, dice));
        return { typeUrl: type, name: one, version: dice.pick([null, '', 'forged']) };
      });
      return { kind: 'changes', hints };
    }
  }
}
