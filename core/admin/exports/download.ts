// Answers with a file that is made while it is sent: at the pace of its reader, bounded, and noted in the audit log.
import { once } from 'node:events'
import { GatewayError } from '../../errors.ts'
import { auditEntry } from '../api/audit.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'
import { invalidField, shown } from '../api/query.ts'

/** How many rows a file has at most. */
const mostRows = 1_000_000
/**
 * How many files are made at a time: all, those for actors of tenants, and those for actors of one. A reader may take
 * its time, and keeps the place meanwhile.
 */
const mostAtOnce = { all: 4, tenants: 3, tenant: 2 } as const

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

/** How many files of a store are being sent, by the tenant of who asked; null: who sees the whole gateway. */
const running = new WeakMap<AdminParts['store'], Map<string | null, number>>()

/** The files that are being sent, and whether there is room for one more of an actor. */
function filesOf(store: AdminParts['store'], tenant: string | null): { hasRoom: boolean; add(more: 1 | -1): void } {
  const counts = running.get(store) ?? new Map<string | null, number>()
  running.set(store, counts)
  const all = [...counts.values()].reduce((sum, count) => sum + count, 0)
  const own = counts.get(tenant) ?? 0
  return {
    hasRoom:
      all < mostAtOnce.all &&
      (tenant === null || (own < mostAtOnce.tenant && all - (counts.get(null) ?? 0) < mostAtOnce.tenants)),
    add: (more) => {
      const count = (counts.get(tenant) ?? 0) + more
      if (count > 0) counts.set(tenant, count)
      else counts.delete(tenant)
    }
  }
}

/**
 * Answers with a file of lines, of which the audit log tells before its first byte. A file with more than a million
 * rows breaks off, as one that misses the rest would look whole.
 * @throws GatewayError `too_many_exports`
 */
export async function download(
  { query, by }: Call,
  { store, log }: AdminParts,
  { what, format, head, rows }: { what: string; format: Format; head?: string; rows: AsyncIterable<string> }
): Promise<Answer> {
  if (!filesOf(store, by.tenant).hasRoom)
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
      const { hasRoom, add } = filesOf(store, by.tenant)
      if (!hasRoom) throw new Error('too many files are being sent')
      add(1)
      try {
        if (head !== undefined) to.write(head)
        let sent = 0
        for await (const row of rows) {
          ended.throwIfAborted()
          if (++sent > mostRows) throw new Error(`the file has more than ${mostRows} rows: ask for less of it`)
          if (!to.write(row)) await once(to, 'drain', { signal: ended })
        }
      } finally {
        add(-1)
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
