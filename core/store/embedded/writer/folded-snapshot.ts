// What the main thread gets of the state of a journal.
import type { Row } from '../files/sqlite.ts'
import { workColumns } from '../rows/batch.ts'
import { rowOf } from '../recovery/folded-leftovers.ts'
import type { Fold } from '../segments/fold.ts'
import { day, daysOf, horizon, isHour, oldestWindow, windowOf } from '../../window.ts'
import type { Snapshot } from './snapshot.ts'

const [createdColumn, jsonColumn] = [workColumns.indexOf('created'), workColumns.indexOf('json')]

/** What a snapshot has of a state at a time, in Unix milliseconds. */
type Folded = Omit<Snapshot, 'log' | 'recovered' | 'written'>

/** Makes it. */
export function snapshotOf(fold: Fold, now: number): Folded {
  const open = [...fold.holds].map(rowOf).sort((one, other) => Number(one['id']) - Number(other['id']))
  const since = horizon(open.reduce((oldest, row) => Math.min(oldest, Number(row['ts_ms'])), now))
  const works = [...fold.works.values()].sort((one, other) => Number(one[createdColumn]) - Number(other[createdColumn]))
  return {
    batch: fold.place.batch,
    lastHold: Number(open.at(-1)?.['id'] ?? 0),
    since,
    balances: balancesOf(fold, since),
    prices: [...fold.prices].map(([version, json]) => ({ version, json })),
    documents: [...fold.documents.values()].map(([kind, id, json]) => ({ kind: kind!, id: id!, json: json! })),
    open,
    parts: [...fold.holds.parts].map(([requestId, { amount, usage }]) => ({
      request_id: requestId,
      amount,
      usage_json: JSON.stringify(usage)
    })),
    works: works.map((row) => ({ json: row[jsonColumn]! })),
    room: roomOf(fold)
  }
}

/** The balances since a time, and the hours that rolling budgets need, as `storedBalances` reads them. */
function balancesOf(fold: Fold, since: number): Row[] {
  const rows: Row[] = []
  const hours: Row[] = []
  const oldest = oldestWindow(since)
  /** The first hour that a rolling budget of a scope needs. */
  const from = new Map<string, string>()
  for (const { scope, window, posted, pending, limit } of fold.balances) {
    const row = { scope, window, posted, pending, limit: limit ?? null }
    const days = daysOf(window)
    if (days !== undefined) {
      const first = windowOf('hour', since - days * day)
      if (first < (from.get(scope) ?? '~')) from.set(scope, first)
    }
    if (isHour(window)) hours.push(row)
    else if (days !== undefined || window >= oldest) rows.push(row)
  }
  const needed = hours.filter(({ scope, window }) => (window as string) >= (from.get(scope as string) ?? '~'))
  return [...rows, ...needed]
}

/** The counted bytes of ended work, by tenant. */
function roomOf(fold: Fold): Row[] {
  const room = new Map<string, number>()
  for (const [name, bytes] of fold.room) {
    const [tenant = ''] = name.split('\0', 1)
    room.set(tenant, (room.get(tenant) ?? 0) + bytes)
  }
  return [...room].map(([tenant, bytes]) => ({ tenant, bytes: BigInt(bytes) }))
}
