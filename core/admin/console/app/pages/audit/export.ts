// Entries of the audit log as a file: CSV that no spreadsheet takes for formulas, or JSON lines, which are exact.
import type { Entry } from './entry.ts'

const columns = [
  'seq',
  'time',
  'action',
  'actor_kind',
  'actor',
  'actor_name',
  'actor_role',
  'address',
  'request_id',
  'object_kind',
  'object',
  'tenant',
  'outcome',
  'why',
  'times',
  'before',
  'after',
  'hash'
] as const satisfies readonly (keyof Entry)[]

/** Entries as CSV (RFC 4180) with a line of names. */
export function csvOf(entries: readonly Entry[]): string {
  const rows = entries.map((entry) => columns.map((name) => cell(entry[name])).join(','))
  return `${[columns.join(','), ...rows].join('\r\n')}\r\n`
}

/** Entries as lines of JSON. */
export function linesOf(entries: readonly Entry[]): string {
  return entries.map((entry) => `${JSON.stringify(entry)}\n`).join('')
}

function cell(value: unknown): string {
  if (value === undefined || value === null) return ''
  if (typeof value === 'number') return String(value)
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  // A text that begins so would be run as a formula.
  return `"${(/^[=+\-@\t\r\n\0]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`
}

/** Offers a text as a file of a name to the reader. */
export function save(name: string, type: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: `${type}; charset=utf-8` }))
  const link = document.createElement('a')
  link.href = address
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(address), 60_000)
}
