// Rows of text in columns, for people.

/** Columns as wide as their widest cell, two spaces between them; those of numbers to the right. */
export function renderTable(rows: readonly (readonly string[])[], numbers: ReadonlySet<number> = new Set()): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  const cell = (text: string, column: number): string =>
    numbers.has(column) ? text.padStart(widths[column]!) : text.padEnd(widths[column]!)
  return rows.map((row) => row.map(cell).join('  ').trimEnd()).join('\n')
}
