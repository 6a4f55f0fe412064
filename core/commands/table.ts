// Renders tables of text for people.

/**
 * Aligns the cells of rows: each column is as wide as its widest cell, with two spaces between columns. Columns in
 * `numbers` are aligned to the right.
 */
export function renderTable(rows: readonly (readonly string[])[], numbers: ReadonlySet<number> = new Set()): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  const cell = (text: string, column: number): string =>
    numbers.has(column) ? text.padStart(widths[column]!) : text.padEnd(widths[column]!)
  return rows.map((row) => row.map(cell).join('  ').trimEnd()).join('\n')
}
