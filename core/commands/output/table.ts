// Renders tables of text for people.

/**
 * One line as a terminal may show it. Names and messages come from clients and upstreams: their control characters
 * would be commands to the terminal, or turn what stands beside them round.
 */
export function plain(line: string): string {
  return line.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?')
}

/**
 * Aligns the cells of rows: each column is as wide as its widest cell, with two spaces between columns. Columns in
 * `numbers` are aligned to the right. Cells are made {@link plain}.
 */
export function renderTable(given: readonly (readonly string[])[], numbers: ReadonlySet<number> = new Set()): string {
  const rows = given.map((row) => row.map(plain))
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  const cell = (text: string, column: number): string =>
    numbers.has(column) ? text.padStart(widths[column]!) : text.padEnd(widths[column]!)
  return rows.map((row) => row.map(cell).join('  ').trimEnd()).join('\n')
}
