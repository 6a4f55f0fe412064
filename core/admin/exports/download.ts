// Answers with a file that is made while it is sent: at the pace of its reader, bounded, and noted in the audit log.
import { GatewayError } from '../../errors.ts'
import { auditEntry } from '../api/audit.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'
import { invalidField, shown } from '../api/query.ts'
import { Places } from '../places.ts'
import type { PlaceBounds } from '../places.ts'
import { ReaderPace } from './reader-pace.ts'

/** How many rows a file has at most. */
const mostRows = 1_000_000
/** How many files are sent at a time. */
const bounds: PlaceBounds = { all: 6, tenants: 5, tenant: 2, one: 6 }

/** How many rows are read of the store at a time. */
export const rowsAtOnce = 500

/** The formats, with the types of their answers. */
const formats = { csv: 'text/csv; charset=utf-8', jsonl: 'application/x-ndjson' } as const

/** The format of a file. */
export type Format = keyof typeof formats

/** The format that a query asks for; without a word CSV. @throws GatewayError */
export function readFormat(query: Call['query']): Format {
  const format = query.get('format') ?? 'csv'
  if (format === 'csv' || format === 'jsonl') return format
  throw invalidField('format', `format is ${shown(format)}: it must be csv or jsonl`)
}

/** The places for files of each store. */
const places = new WeakMap<AdminParts['store'], Places>()

function placesOf(store: AdminParts['store']): Places {
  const known = places.get(store) ?? new Places(bounds)
  places.set(store, known)
  return known
}

/**
 * Answers with a file of lines, of which the audit log tells before its first byte. A file with more than a million
 * rows breaks off, as one that misses the rest would look whole; so does one whose reader takes too long.
 * @throws GatewayError `too_many_exports`
 */
export async function download(
  { query, by }: Call,
  { store, log }: AdminParts,
  { what, format, head, rows }: { what: string; format: Format; head?: string; rows: AsyncIterable<string> }
): Promise<Answer> {
  if (placesOf(store).lacking(by))
    throw new GatewayError('overloaded', 'Too many files are being sent: wait until one is done.', {
      status: 429,
      shownCode: 'too_many_exports',
      retryAfterMs: 5000
    })
  const thing = { kind: 'export', id: what, tenant: query.get('tenant') ?? null }
  await store.documents.change([], auditEntry(by, `${what}.export`, thing, undefined, Object.fromEntries(query)))
  log.info('a file is being sent', { what, by: by.id })
  const day = new Date().toISOString().slice(0, 10)
  return {
    contentType: formats[format],
    headers: {
      'content-disposition': `attachment; filename="sluice-${what}-${day}.${format}"`,
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox"
    },
    flow: async (to, ended) => {
      if (placesOf(store).lacking(by)) throw new Error('too many files are being sent')
      const leave = placesOf(store).take(by)
      const reader = new ReaderPace(to)
      try {
        if (head !== undefined) await reader.write(head, ended)
        let sent = 0
        for await (const row of rows) {
          ended.throwIfAborted()
          if (++sent > mostRows) throw new Error(`the file has more than ${mostRows} rows: ask for less of it`)
          const taken = reader.write(row, ended)
          if (taken) await taken
        }
      } finally {
        leave()
      }
    }
  }
}

/** Stops before something of another tenant is sent: the query was confined, so this is a mistake in a route. */
export function checkOwn(tenant: unknown, { by }: Call): void {
  if (by.tenant !== null && tenant !== by.tenant)
    throw new Error('a file for an actor of one tenant has something of another')
}

/** A row without the members that an actor may not see. */
export function without(row: object, hidden: readonly string[]): object {
  return Object.fromEntries(Object.entries(row).filter(([name]) => !hidden.includes(name)))
}
