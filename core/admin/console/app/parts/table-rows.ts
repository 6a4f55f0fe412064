// What a table does with its rows before it draws them: sorts, filters, makes text of them.

/** A column as far as rows are concerned. */
export interface Valued<T> {
  /** Unique in the table. The browser remembers it, and filters name it. */
  readonly id: string
  /** With the unit, where cells do not have it. */
  readonly title: string
  /** What is sorted, filtered and copied; null where there is nothing, which sorts last. Absent: none of these. */
  value?(row: T): string | number | bigint | null | undefined
}

/** An order of rows. `down`: the highest first. */
export interface Sort {
  readonly column: string
  readonly down: boolean
}

/** Made at its first use, as making it takes milliseconds. */
let collator: Intl.Collator | undefined

/** Rows in an order. Rows without a value come last in both directions. */
export function sorted<T>(rows: readonly T[], columns: readonly Valued<T>[], sort: Sort): readonly T[] {
  const column = columns.find(({ id }) => id === sort.column)
  if (!column?.value) return rows
  const turn = sort.down ? -1 : 1
  const { compare } = (collator ??= new Intl.Collator(undefined, { numeric: true, sensitivity: 'base' }))
  return rows
    .map((row) => ({ row, value: column.value!(row) ?? undefined }))
    .sort((one, other) => {
      if (one.value === undefined || other.value === undefined)
        return Number(one.value === undefined) - Number(other.value === undefined)
      if (typeof one.value === 'string' || typeof other.value === 'string')
        return turn * compare(String(one.value), String(other.value))
      return one.value < other.value ? -turn : one.value > other.value ? turn : 0
    })
    .map(({ row }) => row)
}

/** Whether all words of a text occur in a row's values. */
export function matches<T>(row: T, columns: readonly Valued<T>[], wanted: string): boolean {
  const text = columns
    .map((column) => String(column.value?.(row) ?? ''))
    .join(' ')
    .toLowerCase()
  return wanted
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word))
}

/** Rows as text for a spreadsheet: tabs between cells, no formulas. */
export function tsvOf<T>(rows: readonly T[], columns: readonly Valued<T>[]): string {
  const given = columns.filter((column) => column.value)
  const lines = rows.map((row) => given.map((column) => harmless(column.value!(row))).join('\t'))
  return [given.map(({ title }) => title).join('\t'), ...lines].join('\n')
}

/** A value as text that no spreadsheet takes for a formula. Numbers keep their sign. */
function harmless(value: string | number | bigint | null | undefined): string {
  if (typeof value !== 'string') return String(value ?? '')
  const text = value.replace(/[\t\r\n\0]+/g, ' ')
  return /^[=+\-@]/.test(text) && !/^-?\d+(\.\d+)?$/.test(text) ? `'${text}` : text
}
