// What is folded from the batches of a store is what the store has written to its database.
import { join } from 'node:path'
import t from 'tap'
import { Fold } from '../../../../../core/store/embedded/segments/fold.ts'
import { holdColumns } from '../../../../../core/store/embedded/rows/batch.ts'
import { chance } from '../../../../kit/chance.ts'
import { query } from '../sample.ts'
import { capture } from './captured.ts'

const seeds = [1, 2, 3, 4]
const seen = { holds: 0, works: 0, documents: 0, room: 0 }

/** What a database says of all that a fold has. */
function stored(file: string): object {
  const rows = (sql: string): unknown[][] => query(file, sql).map((row) => Object.values(row).map(plain))
  const [head] = query(file, 'SELECT seq, hash, audits, audit_hash FROM head')
  return {
    head: Object.values(head!).map(plain),
    balances: rows('SELECT scope, window, posted, pending, "limit" FROM balance')
      .filter(
        ([, window, posted, pending, limit]) =>
          posted !== 0 || pending !== 0 || limit !== null || String(window).endsWith('d')
      )
      .sort(byText),
    holds: rows(`SELECT ${holdColumns.join(', ')}, boot_id, lease_until FROM reservation ORDER BY id`),
    prices: rows('SELECT version, json FROM price').sort(byText),
    documents: rows('SELECT kind, id, json FROM document ORDER BY number'),
    works: rows('SELECT tenant, project, id, kind, open, created, expires, json FROM work WHERE open = 1').sort(byText),
    room: rows('SELECT tenant, sum(bytes) FROM work WHERE bytes IS NOT NULL AND open = 0 GROUP BY tenant').sort(byText)
  }
}

/** The same of a fold. */
function folded(fold: Fold): object {
  const room = new Map<string, number>()
  for (const [name, bytes] of fold.room) {
    const [tenant] = name.split('\0', 1)
    room.set(tenant!, (room.get(tenant!) ?? 0) + bytes)
  }
  const { seq, hash, audits, auditHash } = fold.place
  return {
    head: [seq, hash, audits, auditHash],
    balances: [...fold.balances]
      .map(({ scope, window, posted, pending, limit }) => [scope, window, posted, pending, limit ?? null].map(plain))
      .filter(
        ([, window, posted, pending, limit]) =>
          posted !== 0 || pending !== 0 || limit !== null || String(window).endsWith('d')
      )
      .sort(byText),
    holds: [...fold.holds]
      .map(({ row, boot, lease }) => [...row, boot, lease].map(plain))
      .sort(([one], [other]) => (one as number) - (other as number)),
    prices: [...fold.prices].sort(byText),
    documents: [...fold.documents.values()],
    works: [...fold.works.values()].map((row) => row.map(plain)).sort(byText),
    room: [...room].sort(byText)
  }
}

function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value)
  return value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value
}

function byText(one: unknown, other: unknown): number {
  const [a, b] = [JSON.stringify(one), JSON.stringify(other)]
  return a < b ? -1 : a > b ? 1 : 0
}

for (const seed of seeds)
  t.test(`balances, holds, the journal and all else are the same on schedule ${seed}`, async (t) => {
    const file = join(t.testdir(), 'sluice.db')
    const batches = await capture(file, chance(seed), 3, 250)
    const fold = new Fold()
    for (const { batch, start } of batches) fold.add(batch, start)
    seen.holds += fold.holds.size
    seen.works += fold.works.size
    seen.documents += fold.documents.size
    seen.room += fold.room.size
    t.ok(fold.place.seq > 100, `${fold.place.seq} rows of the journal in ${batches.length} batches`)
    t.same(folded(fold), stored(file))
  })

t.test('the schedules leave something of everything', (t) => {
  for (const [what, count] of Object.entries(seen)) t.ok(count > 0, `${count} ${what}`)
  t.end()
})
