/** Checks placeholders: what replaces an unavailable cluster, and where it may do so (GRPC 8). */
import type { Held, Written } from './model-client.js';
import { MOST_DRIFT } from './clocks.js';
import { CDS, EDS, isOldAuthority, lengthDelimited, nameText, partsOf, wireName } from './names.js';
import { Violation } from './oracle.js';

/** The subscriptions of a client that may get placeholders. */
interface PlaceholderClient {
  type(typeUrl: string): {
    readonly asked: ReadonlyMap<string, { readonly request: number; readonly atMs: number }>;
  };
}

/** Shortened by the error of the gateway's clock. */
const PLACEHOLDER_AFTER_MS = 5_000 * (1 - 2 * MOST_DRIFT);

/**
 * @param before what the client holds in its place, as far as the gateway can know
 * @throws Violation if content without a mark is not a placeholder, or replaces content.
 */
export function checkPlaceholder(
  client: PlaceholderClient,
  name: string,
  body: Uint8Array,
  { sentMs, readRequests }: Pick<Written, 'sentMs' | 'readRequests'>,
  before: Held | undefined,
): void {
  const { typeUrl } = partsOf(name);
  const isRight = typeUrl === CDS || typeUrl === EDS;
  const expected =
    typeUrl === CDS ? clusterOf(name) : lengthDelimited(1, Buffer.from(wireName(name)));
  if (!isRight || expected.compare(body) !== 0) {
    throw new Violation('1', `${name} has content that no source published`);
  }
  const { asked: askedOf } = client.type(typeUrl);
  // For an assignment this is allowed: nothing else can report its removal (GRPC 10).
  if (typeUrl === CDS && before && before.publications.length > 0) {
    throw new Violation('17', `${name} becomes a placeholder`);
  }
  if (typeUrl === EDS) return;
  const asked = askedOf.get(name);
  // A message written before the name was subscribed, or subscribed again, does not answer that.
  const isAnswer = asked !== undefined && asked.request <= readRequests && asked.atMs <= sentMs;
  if (isAnswer && sentMs < asked.atMs + PLACEHOLDER_AFTER_MS) {
    throw new Violation('GRPC 8', `${name} has a placeholder before its time`);
  }
}

/** Type EDS, from ADS, with the assignment of the same id. */
function clusterOf(name: string): Buffer {
  const ads = Buffer.from([0x0a, 4, 0x1a, 0, 0x30, 2]);
  const own = lengthDelimited(1, Buffer.from(wireName(name)));
  // The assignment of an old-style cluster has the cluster's name.
  const isOld = isOldAuthority(partsOf(name).authority);
  const service = isOld ? Buffer.alloc(0) : lengthDelimited(2, Buffer.from(assignmentOf(name)));
  const config = lengthDelimited(3, Buffer.concat([ads, service]));
  return Buffer.concat([own, Buffer.from([0x10, 3]), config]);
}

/** The directive of `#entry=` is cut off: the id is that of the list. */
function assignmentOf(name: string): string {
  const [cluster = ''] = name.split('#');
  const { authority, id } = partsOf(cluster);
  return nameText(authority, EDS, id);
}
