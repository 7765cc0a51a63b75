/**
 * A resource that is larger is converted between its bytes and JSON on another thread: it cannot be split, and takes
 * 150 ms for 1 MB. Bytes, or characters of JSON.
 */
export const LARGE_RESOURCE = 65_536;

/**
 * Messages nested in one another, those in an Any too. Decoders of protobuf accept 100, but count from zero in each Any, which
 * costs a copy of all that is in it: 10,000 nested messages took a second. A count.
 */
export const MAX_NESTED_MESSAGES = 200;

export const NESTS_TOO_DEEPLY = `more than ${MAX_NESTED_MESSAGES} messages are nested in one another`;
