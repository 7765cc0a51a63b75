/** Text in columns, for people. */
import { oneLine } from '../telemetry/line-fields.js';

/**
 * A client chose some of the cells, so no control character reaches the terminal.
 *
 * @param cells the first row has the titles; all rows have as many cells
 */
export function tableText(cells: readonly (readonly string[])[]): string {
  const rows = cells.map((row) => row.map(oneLine));
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) {
      widths[column] = Math.max(widths[column] ?? 0, cell.length);
    }
  }
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}
