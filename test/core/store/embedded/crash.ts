// A process for the durability tests to kill: `node crash.ts serve|defer|hold|open|fill <file> [log|journal]`. It says
// on stdout what it was promised. Without a form the store is as it is, or as a new one is.
import { execFileSync } from 'node:child_process'
import { appendFileSync, rmSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Scope } from '../../../../core/catalogue/caller.ts'
import { GatewayError } from '../../../../core/errors.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import type { Store } from '../../../../core/store/store.ts'
import { verify } from '../../../../core/store/embedded/care/verify/verify.ts'
import { createLogger } from '../../../../core/telling/log.ts'
import { forms } from './forms.ts'
import type { Form } from './forms.ts'
import { giveBack, query, reserve, scope, settle } from './sample.ts'

const [mode, file = '', form] = process.argv.slice(2)
const options = form === undefined ? {} : forms[form as Form['name']].options

/** Is out of the process before anything else happens, as the next moment may be its last. */
function say(...words: unknown[]): void {
  let rest = Buffer.from(`${words.join(' ')}\n`)
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(1, rest))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
    }
  }
}

const trees: Scope[][] = Array.from({ length: 5 }, (_, i) => [
  scope('tenant', 'acme', 10n ** 15n, 'month'),
  scope('project', `acme/p${i % 2}`),
  scope('key', `k${i}`, 10n ** 12n, 'day')
])

/**
 * An endless mix of exchanges: `byte <id>` when its client saw a byte, `end <id> <amount> <time>` when it saw the end,
 * at that time in Unix milliseconds.
 */
async function exchange(store: Store, i: number): Promise<void> {
  for (let n = i; ; n += 7) {
    const reservation = reserve(store.ledger, trees[n % trees.length]!, 1000n, { time: Date.now() })
    const { requestId } = reservation
    reservation.dispatched('openai')
    await reservation.durable
    say('byte', requestId)
    if (n % 3 === 0) await sleep(n % 5)
    reservation.delivered(n % 50)
    const amount = n % 11 === 0 ? 0 : 1 + (n % 900)
    await (amount === 0 ? giveBack(store, reservation) : settle(store, reservation, amount))
    say('end', requestId, amount, Date.now())
  }
}

/** Takes the disk to its end, heals it and tells what came of it. */
async function fill(store: Store): Promise<void> {
  const open: ReturnType<typeof reserve>[] = []
  const ends: Promise<void>[] = []
  const acknowledged: string[] = []
  const end = (reservation: ReturnType<typeof reserve>): void => {
    const settled = settle(store, reservation, 7)
    settled.then(
      () => acknowledged.push(reservation.requestId),
      () => {}
    )
    ends.push(settled)
  }
  let code = ''
  while (code === '') {
    try {
      open.push(reserve(store.ledger, trees[0]!, 1000n, { model: 'x'.repeat(5000) }))
      if (open.length > 10) end(open.shift()!)
      await sleep(1)
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      code = error.code
    }
  }
  const { healthy, lastError } = store.health()
  const early = [...acknowledged]
  for (const reservation of open) end(reservation)
  const told = await Promise.allSettled(ends)
  execFileSync('mount', ['-o', 'remount,size=64m', dirname(file)])
  while (!store.health().healthy) await sleep(20)
  await settle(store, reserve(store.ledger, trees[0]!, 1000n), 5)
  await store.close()
  const stored = new Set(
    query(file, "SELECT request_id FROM journal WHERE class = 'terminal'").map((row) => row['request_id'])
  )
  const missing = early.filter((id) => !stored.has(id)).length
  const rejected = told.filter(({ status }) => status === 'rejected').length
  say(
    JSON.stringify({
      code,
      healthy,
      lastError,
      early: early.length,
      missing,
      ends: ends.length,
      rejected,
      rows: stored.size,
      breaches: verify(file)
    })
  )
}

/**
 * Serves until its own growth has filled the disk, and some thousand requests beyond; then starts again on a disk
 * without a free byte.
 */
async function grow(): Promise<void> {
  const ever = { age: 1e15, size: 1e15 }
  const keeping = { requests: ever, journal: { ...ever, rows: 65_536 }, patience: 0 }
  const lines: { msg: string }[] = []
  const log = createLogger({ write: (line) => lines.push(JSON.parse(line) as { msg: string }) })
  let store = await openStore({ file, durability: 'process', keeping, log, ...options })
  let served = 0
  let refused = 0
  const serve = async (count: number): Promise<void> => {
    for (const target = served + count; served < target;) {
      try {
        await Promise.all(Array.from({ length: 100 }, () => settle(store, reserve(store.ledger, trees[0]!, 1000n), 7)))
        served += 100
        if (served % 1000 > 0) continue
        await store.flush()
        // A disk of forty megabytes would be full before the upkeep has looked at it once.
        await sleep(150)
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error
        refused++
        await sleep(50)
      }
    }
  }
  while (!lines.some(({ msg }) => msg.includes('records went'))) await serve(500)
  const before = served
  await serve(6000)
  await store.flush()
  await store.close()
  const junk = `${dirname(file)}/junk`
  try {
    for (;;) appendFileSync(junk, Buffer.alloc(4096))
  } catch {
    // Not a byte is left.
  }
  let start = 'started'
  try {
    store = await openStore({ file, durability: 'process', keeping, log, ...options })
    await serve(100)
    await store.close()
  } catch (error) {
    start = String(error)
  }
  rmSync(junk)
  // The store may have filled the disk without any junk.
  execFileSync('mount', ['-o', 'remount,size=64m', dirname(file)])
  if (start !== 'started') await (await openStore({ file, durability: 'process', keeping, log, ...options })).close()
  say(
    JSON.stringify({
      before,
      served,
      refused,
      start,
      ended: Number(query(file, 'SELECT count(*) AS n FROM journal')[0]!['n']),
      breaches: verify(file),
      lines: lines.map(({ msg }) => msg)
    })
  )
}

/** Does what the mode says with a store that is opened for it. */
async function run(): Promise<void> {
  const store = await openStore({ file, durability: mode === 'defer' ? 'deferred' : 'power', ...options })
  say('ready', store.health().recovered)
  if (mode === 'serve' || mode === 'defer') await Promise.all([1, 2, 3, 4, 5, 6, 7].map((i) => exchange(store, i)))
  else if (mode === 'fill') await fill(store)
  else if (mode === 'hold') {
    const holds = Array.from({ length: 20_000 }, (_, i) => {
      const reservation = reserve(store.ledger, trees[i % trees.length]!, 1000n)
      if (i % 2 === 0) reservation.dispatched('openai')
      reservation.delivered(i % 200)
      return reservation.durable
    })
    await Promise.all(holds)
    await store.flush()
    say('held')
    await new Promise(() => {})
  }
}

await (mode === 'grow' ? grow() : run())
