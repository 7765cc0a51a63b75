/** The Prometheus text format, as `/metrics` writes it. */

export interface Series {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** @param admin host:port */
export async function metricsText(admin: string): Promise<string> {
  const response = await fetch(`http://${admin}/metrics`);
  return response.text();
}

/** The whole of a text that comes in pieces. */
export async function joined(pieces: AsyncIterable<string>): Promise<string> {
  let text = '';
  for await (const piece of pieces) text += piece;
  return text;
}

/** The series of one metric. */
export function seriesOf(text: string, metric: string): readonly Series[] {
  return [...text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)].flatMap(
    ([, name, labels = '', value]) =>
      name === metric ? [{ labels: labelsIn(labels), value: Number(value) }] : [],
  );
}

function labelsIn(text: string): Readonly<Record<string, string>> {
  const pairs = [...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
  return Object.fromEntries(pairs.map(([, name = '', value = '']) => [name, value] as const));
}
