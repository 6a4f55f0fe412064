// Renders tables as CSV (RFC 4180) that is safe to open in a spreadsheet.

const number = /^-?\d+(\.\d+)?$/
/**
 * What makes a formula of a cell, also for spreadsheets that take wide and small characters for usual ones, or leave
 * out what cannot be seen: white space, control characters, and what is ignored where it cannot be drawn.
 */
const formula = /^(?:[\t\r\n\0]|[\s\p{C}\p{Default_Ignorable_Code_Point}]*[=+\-@＝＋－＠﹦﹢﹣﹫−])/u
/** The same where a spreadsheet that tells cells apart by something else than commas sees the beginning of one. */
const formulaWithin = /([;\t|\r\n]["'\s\p{C}\p{Default_Ignorable_Code_Point}]*)(?=[=+\-@＝＋－＠﹦﹢﹣﹫−])/gu

/**
 * Renders a line. What a spreadsheet would take for a formula gets a quote in front, unless it is a number; so does
 * what it would take for one if it began a new cell or line within a text. Nothing stands for null and undefined, JSON
 * for an object.
 */
export function csvLine(values: readonly unknown[]): string {
  return `${values.map(cell).join(',')}\r\n`
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return ''
  const plain = typeof value === 'object' ? JSON.stringify(value) : String(value as string | number | bigint | boolean)
  const text = (formula.test(plain) && !number.test(plain) ? `'${plain}` : plain).replace(formulaWithin, "$1'")
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
