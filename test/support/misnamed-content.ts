/** A group whose only candidate, an alternative, sends content that cannot be served under the primary's name. */
import { TurnRoom } from '../../authorities/core/failover/turn-room.js';
import { FailoverGroup } from '../../authorities/core/failover/failover-group.js';
import { alternativeMapping } from '../../authorities/core/resolution/name-mapping.js';
import { SourceContents } from '../../authorities/core/sources/source-contents.js';
import type { Source } from '../../authorities/core/sources/source.js';
import { encodeResourceField } from '../../protos/resource-field.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { nameOf } from './fake-directory.js';
import { mapOf } from './federation-driver.js';

/** @returns `name`: as the group requests it. The change is in `contents`; the group has not heard of it. */
export function misnamedContent() {
  const contents = new SourceContents();
  const source: Source = {
    name: 'o',
    id: 'o',
    contents,
    answersInParts: () => true,
    facts: () => ({ live: true, liveSinceMs: 0, wellSinceMs: 0, tripped: false }),
    subscribe: (typeUrl, name, listener) => contents.subscribe(typeUrl, name, listener),
    unsubscribe: (typeUrl, name, listener) => contents.unsubscribe(typeUrl, name, listener),
    askAgain: () => undefined,
    nudge: () => undefined,
    setWarmed: () => undefined,
  };
  const spec = mapOf({ authorities: { cloud: { sources: ['o'] } } }).authorities.get('cloud')!;
  const alternative = { authority: 'onprem', fromPrefix: '', toPrefix: '' };
  const mapping = alternativeMapping('cloud', alternative);
  const candidates = [{ source, authority: 'onprem', mapping }];
  const group = new FailoverGroup('cloud', spec, candidates, {
    onInput: () => undefined,
    room: new TurnRoom(),
  });
  const typeUrl = TYPE_URL.cluster;
  const there = nameOf('xdstp://onprem/envoy.config.cluster.v3.Cluster/x');
  const name = mapping.toReference(there);
  group.want(typeUrl, name, 0);
  // A field of the cluster is longer than the message.
  const field = encodeResourceField(there.key, 'v', typeUrl, Buffer.from([0x0a, 99, 1]));
  const projection = { name: there, typeUrl, version: 'v', field, edsKey: undefined };
  contents.put({ projection, upstreamVersion: 'v' });
  return { group, source, contents, typeUrl, name };
}
