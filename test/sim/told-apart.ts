/**
 * What tells the clients of two nodes apart in a world with old-style names, written and read
 * without the code under test: the id of the Node, a field that is null in one Node and missing in
 * the other, or a header that the gateway forwards.
 */
import type { NodeField } from '../../protos/node-scope.js';
import { lengthDelimited } from './names.js';

export const MARKS = ['id', 'null_field', 'header'] as const;

export type Mark = (typeof MARKS)[number];

/** What a peer says of itself. */
export interface Told {
  /** An encoded Node. */
  readonly node: Uint8Array;
  readonly headers: ReadonlyMap<string, readonly string[]>;
}

/** The nodes of clients that are told apart; all other peers are of the common node. */
export const NODES = ['p', 'q'] as const;
export const COMMON_NODE = 'n';
export const HEADER = 'x-tenant';
const FIELD = 'group';

/** `differ_by` of the map. */
export const differByOf = (mark: Mark): readonly NodeField[] =>
  mark === 'id' ? ['id'] : mark === 'null_field' ? [`metadata.${FIELD}`] : [];

const text = (field: number, value: string): Buffer => lengthDelimited(field, Buffer.from(value));

/** A field of a `google.protobuf.Struct` that is null. */
const NULL_ENTRY = lengthDelimited(
  1,
  Buffer.concat([text(1, FIELD), lengthDelimited(2, Buffer.from([0x08, 0]))]),
);

/** What a client of this node says. */
export function toldOf(mark: Mark, node: string): Told {
  const isMarked = mark === 'null_field' && node === NODES[0];
  const metadata = isMarked ? [lengthDelimited(3, NULL_ENTRY)] : [];
  return {
    node: Buffer.concat([text(1, mark === 'id' ? node : COMMON_NODE), ...metadata]),
    headers: mark === 'header' ? new Map([[HEADER, [node]]]) : new Map(),
  };
}

/** The node of a peer that says this. */
export function nodeOfTold(mark: Mark, { node, headers }: Told): string {
  if (mark === 'header') return headers.get(HEADER)?.join() ?? COMMON_NODE;
  if (mark === 'null_field') return NODES[Buffer.from(node).includes(NULL_ENTRY) ? 0 : 1];
  // Field 1 of a Node comes first.
  return Buffer.from(node.subarray(2, 2 + node[1]!)).toString();
}
