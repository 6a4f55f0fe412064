// How many requests have come since the list was loaded. The list stays as it is until the reader wants them.
import { useEffect, useState } from 'preact/hooks'
import { get } from '../../api.ts'
import type { RequestRecord } from './record.ts'

/** Milliseconds between two questions. */
const pause = 2500

interface Polled {
  readonly data: readonly { event: string; data: { data?: readonly RequestRecord[]; skipped?: number } }[]
  readonly next: string
}

/** Counts those that fit exact filters, while the page is seen; `on` is false for spans that are over. */
export function useNewRows(
  filters: Readonly<Record<string, string>>,
  on: boolean,
  since: number | undefined
): { count: number; more: boolean } {
  const [found, setFound] = useState({ count: 0, more: false })
  const asked = JSON.stringify([filters, on, since])
  useEffect(() => {
    setFound({ count: 0, more: false })
    if (!on || since === undefined) return
    const leaving = new AbortController()
    let last = 'begin'
    const timer = setInterval(() => {
      if (document.hidden) return
      void get<Polled>(
        '/admin/v1/live',
        { topics: 'requests', since: last, tenant: filters['tenant'] },
        leaving.signal
      ).then(
        ({ data, next }) => {
          last = next
          const events = data.map((event) => event.data)
          const rows = events.flatMap((event) => event.data ?? [])
          const count = rows.filter((row) => fits(row, filters)).length
          const skipped = events.some((event) => (event.skipped ?? 0) > 0)
          if (count > 0 || skipped)
            setFound((before) => ({ count: before.count + count, more: before.more || skipped }))
        },
        () => {}
      )
    }, pause)
    return () => {
      leaving.abort()
      clearInterval(timer)
    }
  }, [asked])
  return found
}

const exact = ['tenant', 'project', 'member', 'key', 'model', 'endpoint', 'outcome', 'request_id'] as const

function fits(row: RequestRecord, filters: Readonly<Record<string, string>>): boolean {
  const { status, code } = filters
  if (code !== undefined && row.error_code !== code) return false
  if (status !== undefined && !new RegExp(`^${status.replace('xx', '\\d\\d')}$`).test(String(row.status))) return false
  return exact.every((name) => filters[name] === undefined || row[name] === filters[name])
}
