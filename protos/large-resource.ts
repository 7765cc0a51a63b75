/**
 * A resource that is larger is converted between its bytes and JSON on another thread: it cannot be split, and takes
 * 150 ms for 1 MB. Bytes, or characters of JSON.
 */
export const LARGE_RESOURCE = 65_536;
