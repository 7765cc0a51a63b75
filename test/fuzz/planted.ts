/**
 * Bugs to plant, one at a time: fuzzing must find each. `from` must occur exactly once in the file.
 */

export interface PlantedBug {
  readonly title: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** The target that must find it; `linear`: the comparison of sizes. */
  readonly target: string;
}

export const PLANTED: readonly PlantedBug[] = [
  {
    title: 'one resource more than the limit',
    file: 'protos/discovery-fields.ts',
    from: '} else if (++entries > max) {',
    to: '} else if (entries++ > max) {',
    target: 'delta-response',
  },
  {
    title: 'no limit on names',
    file: 'protos/sotw-codec.ts',
    from: 'if (++asked > maxNames) throw',
    to: 'if (++asked < 0) throw',
    target: 'sotw-request',
  },
  {
    title: 'a truncated text is accepted',
    file: 'protos/discovery-fields.ts',
    from: 'if (reader.pos + length > reader.len) throw',
    to: 'if (reader.pos + length < 0) throw',
    target: 'delta-request',
  },
  {
    title: 'no limit on nested alternatives',
    file: 'protos/locator-codec.ts',
    from: 'if (depth > maxAlternativeDepth) return',
    to: 'if (depth < 0) return',
    target: 'locator',
  },
  {
    title: 'an exception for a message of another instance',
    file: 'gateway/core/peers/peer-message.ts',
    from: "if (typeof typeUrl !== 'string' || typeof key !== 'string') return undefined;",
    to: "if (typeof typeUrl !== 'string' || !key) return undefined;",
    target: 'peer-message',
  },
  {
    title: 'every response of a stream has the same nonce',
    file: 'gateway/core/cache/shared-responses.ts',
    from: '#nonces = 0;',
    to: 'get #nonces() { return 0; } set #nonces(_value) {}',
    target: 'delta-session',
  },
  {
    title: "a client that leaves ends other clients' watches",
    file: 'gateway/core/cache/resource-cache.ts',
    from: 'if (entry.subscribers.size > 0) return;',
    to: 'if (entry.subscribers.size > 1) return;',
    target: 'sotw-session',
  },
  {
    title: 'a redirect leads to an authority that the map forbids',
    file: 'authorities/core/resolution/hops.ts',
    from: 'if (rules.mayLead(from, to)) return undefined;',
    to: "if (rules.mayLead(from, to) || to !== '') return undefined;",
    target: 'upstream',
  },
  {
    title: 'an exception for a heartbeat of a resource that is not held',
    file: 'authorities/core/sources/resource-intake.ts',
    from: "if (entry && (version === '' || version === entry.upstreamVersion)) {",
    to: "if (version === '' || version === entry.upstreamVersion) {",
    target: 'upstream',
  },
  {
    title: 'a scan of all names for each name of a list',
    file: 'protos/list-collection.ts',
    from: 'if (names.has(entry.name)) {',
    to: 'if ([...names].includes(entry.name)) {',
    target: 'linear',
  },
  {
    title: 'a copy of all names for each name',
    file: 'protos/sotw-codec.ts',
    from: 'names.push(readText(reader));',
    to: 'names.splice(0, names.length, ...names, readText(reader));',
    target: 'linear',
  },
  {
    title: 'a loop that does not advance',
    file: 'protos/resource-name-parser.ts',
    from: 'piece = end + 1;',
    to: 'piece = text[end + 1] === text[end] ? end : end + 1;',
    target: 'name',
  },
  {
    title: 'a split prefix is forgotten',
    file: 'gateway/clients/message-reader.ts',
    from: 'PREFIX_BYTES - this.#prefixBytes, chunk',
    to: 'PREFIX_BYTES, chunk',
    target: 'grpc-framing',
  },
  {
    title: 'a part of a message is kept as a view',
    file: 'protos/collected-bytes.ts',
    from: 'const roomBytes = Math.min(maxBytes, 2 * (old?.length ?? 0));',
    to: 'if (!old) { this.#buffer = part; this.#length = neededBytes; return; } const roomBytes = maxBytes;',
    target: 'grpc-framing',
  },
];
