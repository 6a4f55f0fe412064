// How many requests have come since the list was loaded. The list stays as it is until the reader wants them.
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { onArrivals, resets, useLive } from '../../live.ts'
import type { ArrivedRow } from '../../live.ts'
import { nameOf } from './filters.ts'

/** What came. */
export interface NewRows {
  readonly count: number
  /** Whether there were more than the stream showed. */
  readonly more: boolean
}

const none: NewRows = { count: 0, more: false }

/**
 * Counts those that fit exact filters by the live stream, while the page is seen; `on` is false for spans that are
 * over, and `since` is when the list was loaded.
 */
export function useNewRows(filters: Readonly<Record<string, string>>, on: boolean, since: number | undefined): NewRows {
  useLive(filters['tenant'], { topics: 'requests', on })
  const asked = JSON.stringify([filters, on, since])
  const [counted, setCounted] = useState({ ...none, asked })
  const resetsBefore = useRef(0)
  useLayoutEffect(() => {
    setCounted({ ...none, asked })
    resetsBefore.current = resets.peek()
    if (!on || since === undefined) return undefined
    return onArrivals(({ rows, skipped }) => {
      const count = rows.filter((row) => fits(row, filters)).length
      if (count > 0 || skipped > 0)
        setCounted((before) => ({ asked, count: before.count + count, more: before.more || skipped > 0 }))
    })
  }, [asked])
  // The list is drawn anew before the effect runs: what is counted then is of the list before.
  if (counted.asked !== asked) return none
  // The stream begins with one reset; after another one nobody knows what came meanwhile.
  const broken = on && resets.value > resetsBefore.current + 1
  return broken ? { ...counted, more: true } : counted
}

const exact = ['tenant', 'project', 'member', 'key', 'model', 'endpoint', 'outcome'] as const

/** The filters that are found out by a row of the stream. */
export const foundInRows: ReadonlySet<string> = new Set([
  ...[...exact, 'status', 'code'].flatMap((name) => [name, nameOf(name, true)]),
  'since',
  'until'
])

function fits(row: ArrivedRow, filters: Readonly<Record<string, string>>): boolean {
  const is = (name: string, wanted: string): boolean =>
    name === 'status'
      ? new RegExp(`^${wanted.replace('xx', '\\d\\d')}$`).test(String(row.status))
      : (name === 'code' ? row.error_code : row[name as (typeof exact)[number]]) === wanted
  return [...exact, 'status', 'code'].every((name) => {
    const [wanted, out] = [filters[name], filters[nameOf(name, true)]]
    return (wanted === undefined || is(name, wanted)) && (out === undefined || !is(name, out))
  })
}
