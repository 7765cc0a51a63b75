/** @returns the groups, and in each its members, in the order of `all` */
export function groupedBy<T>(all: Iterable<T>, labelOf: (one: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const one of all) {
    const label = labelOf(one);
    const group = groups.get(label);
    if (group) group.push(one);
    else groups.set(label, [one]);
  }
  return groups;
}
