/**
 * The known word nearest to a misspelled one, or `undefined` if none is near. The edit distance counts
 * transpositions (optimal string alignment) and may be a third of the length: wilder guesses mislead.
 */
export function nearestWord(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of known) {
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue;
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance && distance < candidate.length) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** `did you mean "x"?`, or a list of the known words, or `undefined` if there are none. */
export function didYouMean(word: string, known: readonly string[]): string | undefined {
  const nearest = nearestWord(word, known);
  if (nearest !== undefined) return `did you mean ${JSON.stringify(nearest)}?`;
  if (known.length === 0) return undefined;
  const shown = known.slice(0, 12).map((name) => JSON.stringify(name));
  return `known here: ${shown.join(', ')}${known.length > 12 ? ', …' : ''}`;
}

function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1];
      const replaced = at(last, j - 1) + (same ? 0 : 1);
      let cost = Math.min(replaced, at(last, j) + 1, at(row, j - 1) + 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) cost = Math.min(cost, at(beforeLast, j - 2) + 1);
      row.push(cost);
    }
    beforeLast = last;
    last = row;
  }
  return at(last, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
