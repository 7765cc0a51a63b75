/** Freezes plain data recursively, also the values of a `Map`; the `Map` itself stays mutable. */
export function deepFreeze<T>(value: T): T {
  if (value instanceof Map) for (const entry of value.values()) deepFreeze(entry);
  else if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    for (const entry of Object.values(value)) deepFreeze(entry);
  }
  return Object.freeze(value);
}
