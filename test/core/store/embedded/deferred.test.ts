// What a store with deferred durability acknowledges before it is on disk, and what a kill then loses.
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { changeOf } from '../../../../core/store/documents.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import { verify } from '../../../../core/store/embedded/care/verify/verify.ts'
import { keyDocuments } from '../../../../core/tenancy/stored.ts'
import type { StoredKey } from '../../../../core/tenancy/stored.ts'
import { gateway } from '../../../kit/gateway.ts'
import { eventually } from '../../../kit/probe.ts'
import { startCrash } from './crashes.ts'
import { query, reserve, scope, settle } from './sample.ts'

const scopes = [scope('key', 'laptop', 1000n)]
const laptop: StoredKey = { name: 'laptop', tenant: 'acme', settings: {}, secrets: [], created: 0 }

/** Holds back what is written to files from now on, until `go` is called. */
function slowDisk(t: Test): { go(): void; readonly held: number } {
  const { write } = fs
  const held: (() => void)[] = []
  let open = false
  fs.write = ((...call: Parameters<typeof write>) => {
    if (open) write(...call)
    else held.push(() => write(...call))
  }) as typeof write
  syncBuiltinESMExports()
  const go = (): void => {
    open = true
    for (const run of held.splice(0)) run()
  }
  t.teardown(() => {
    go()
    fs.write = write
    syncBuiltinESMExports()
  })
  return {
    go,
    get held() {
      return held.length
    }
  }
}

/** Whether it is over at the end of this turn of the event loop. */
async function isOver(promise: Promise<unknown>): Promise<boolean> {
  let over = false
  promise.then(
    () => (over = true),
    () => {}
  )
  await new Promise((resolve) => setImmediate(resolve))
  return over
}

t.test('holds and their ends are acknowledged at once, and are on disk within moments', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'deferred' })
  const disk = slowDisk(t)
  const hold = reserve(store.ledger, scopes, 9n)
  t.ok(await isOver(hold.durable), 'the hold')
  t.ok(await isOver(settle(store, hold, 4)), 'the charge')
  t.equal(store.health().commits, 0, 'nothing is on disk')
  t.match(
    store.ledger.balances({ scope: 'key:laptop' }),
    [{ posted: 4n, pending: 0n }],
    'what is decided counts at once'
  )
  await eventually(() => disk.held > 0)
  disk.go()
  await eventually(() => store.health().commits > 0)
  await store.close()
  t.same(verify(file), [])
  t.match(query(file, 'SELECT sum(amount) AS spent, count(*) AS n FROM journal'), [{ spent: 4n, n: 1n }])
})

t.test('a disk that is slow is waited for, so that little is ever at stake', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'deferred' })
  const disk = slowDisk(t)
  t.ok(await isOver(settle(store, reserve(store.ledger, scopes, 9n), 1)))
  await eventually(() => disk.held > 0)
  await sleep(110)
  const late = settle(store, reserve(store.ledger, scopes, 9n), 2)
  t.notOk(await isOver(late), 'its batch has been with the disk for too long')
  disk.go()
  await late
  // Another batch may take as long on a busy machine.
  await eventually(async () => {
    const hold = reserve(store.ledger, scopes, 9n)
    const over = await isOver(hold.durable)
    await hold.void()
    return over
  })
  await store.close()
  t.match(query(file, 'SELECT sum(amount) AS spent FROM journal'), [{ spent: 3n }])
})

t.test('a disk that fails refuses what is new, and loses nothing of what was acknowledged', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'deferred' })
  const { write } = fs
  fs.write = ((...call: unknown[]) => {
    setImmediate(call.at(-1) as (error: Error) => void, new Error('EIO: i/o error, write'))
  }) as typeof write
  syncBuiltinESMExports()
  t.ok(await isOver(settle(store, reserve(store.ledger, scopes, 9n), 4)))
  await eventually(() => !store.health().healthy)
  t.throws(() => reserve(store.ledger, scopes, 9n), { code: 'billing_unavailable' })
  fs.write = write
  syncBuiltinESMExports()
  await eventually(() => store.health().healthy)
  await store.close()
  t.same(verify(file), [])
  t.match(query(file, 'SELECT sum(amount) AS spent FROM journal'), [{ spent: 4n }])
})

t.test('what operators change and what goes on after its answer is on disk before it is acknowledged', async (t) => {
  const store = await openStore({ file: join(t.testdir(), 'sluice.db'), durability: 'deferred' })
  const disk = slowDisk(t)
  const lease = reserve(store.ledger, scopes, 9n).detach(Date.now() + 1000)
  const change = store.documents.change([changeOf(keyDocuments, 'laptop', laptop)])
  t.notOk(await isOver(lease), 'a lease')
  t.notOk(await isOver(change), 'a key')
  disk.go()
  await Promise.all([lease, change])
  await store.close()
})

t.test('killed at any moment, only the last moments are lost, and nothing is charged twice', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const acknowledged = new Map<string, { amount: bigint; ago: number }>()
  for (let i = 0; i < 5; i++) {
    const child = startCrash('defer', file)
    await eventually(() => child.lines.filter((line) => line.startsWith('end')).length >= 300, 60_000)
    await child.kill()
    const ends = child.lines.map((line) => line.split(' ')).filter(([word]) => word === 'end')
    const last = Number(ends.at(-1)![3])
    for (const [, id, amount, at] of ends) acknowledged.set(id!, { amount: BigInt(amount!), ago: last - Number(at) })
  }
  await (await openStore({ file, durability: 'deferred' })).close()
  t.same(verify(file), [], 'every invariant holds')
  const ends = new Map<string, bigint[]>()
  for (const { request_id, amount } of query(file, "SELECT request_id, amount FROM journal WHERE class = 'terminal'"))
    ends.set(request_id as string, [...(ends.get(request_id as string) ?? []), amount as bigint])
  const found = [...acknowledged].map(([id, { amount, ago }]) => ({ amount, ago, written: ends.get(id) }))
  t.equal(found.filter(({ written }) => written && written.length > 1).length, 0, 'nobody has two ends')
  const records = query(file, 'SELECT request_id FROM request').map(({ request_id: id }) => id as string)
  t.equal(new Set(records).size, records.length, 'nobody has two records')
  t.same(records.toSorted(), [...ends.keys()].toSorted(), 'no end is without its record, and no record without its end')
  t.match(query(file, 'SELECT count(*) AS n FROM reservation'), [{ n: 0n }], 'no hold is left open')
  t.match(query(file, 'SELECT sum(pending) AS held FROM balance'), [{ held: 0n }], 'nothing is held for nobody')
  const lost = found.filter(({ written, amount }) => written?.[0] !== amount)
  // What is acknowledged while a batch is with the disk, which is waited for when it takes a tenth of a second.
  const longest = lost.reduce((most, { ago }) => Math.max(most, ago), 0)
  t.ok(longest < 1000, `${lost.length} of ${found.length} were lost, the oldest ${longest} ms before the last one`)
})

t.test('a gateway that defers has everything in its books when it ends', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const served = await gateway(t, { store: { sqlite: file, durability: 'deferred' } })
  const statuses = await Promise.all(Array.from({ length: 20 }, async () => (await served.chat()).status))
  t.same(new Set(statuses), new Set([200]))
  await served.gateway.close()
  t.same(verify(file), [])
  t.match(query(file, "SELECT count(*) AS n FROM journal WHERE kind = 'settle'"), [{ n: 20n }])
  t.match(query(file, 'SELECT count(*) AS n FROM request'), [{ n: 20n }])
})
