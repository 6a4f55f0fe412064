// Balances of windows that are long over leave the memory that threads share, and nobody notices.
import t from 'tap'
import type { Scope } from '../../../../core/catalogue/caller.ts'
import type { GatewayError } from '../../../../core/errors.ts'
import { Balances } from '../../../../core/store/embedded/balance/balances.ts'
import type { Purse } from '../../../../core/store/embedded/balance/purse.ts'
import { Arena, lockOf } from '../../../../core/store/shared/arena/arena.ts'
import { BalanceRows } from '../../../../core/store/shared/arena/balance-rows.ts'
import { nameOf, settle, shareOf } from '../../../../core/store/shared/arena/cell.ts'
import { horizonOf, WorkerCells } from '../../../../core/store/shared/arena/cells.ts'
import { Directory } from '../../../../core/store/shared/arena/directory.ts'
import { Seat } from '../../../../core/store/shared/arena/seat.ts'
import { Seats } from '../../../../core/store/shared/arena/seats.ts'
import { openWorkerStore } from '../../../../core/store/shared/worker-store.ts'
import { horizon, hour, spansOf, windowsOf } from '../../../../core/store/window.ts'
import { eventually } from '../../../kit/probe.ts'
import { noon, reserve } from '../embedded/sample.ts'
import { pursesOf } from './tasks.ts'
import { resultOf, startTask } from './threads.ts'

const tenant: Scope = { kind: 'tenant', id: 'tenant:acme', budgets: [{ limit: 700n, per: '2d' }] }
const key = (name: string, ...budgets: Scope['budgets'][number][]): Scope => ({
  kind: 'key',
  id: `key:${name}`,
  budgets
})
const callers: readonly (readonly Scope[])[] = [
  [tenant, key('one', { limit: 300n, per: '1d' }, { limit: 900n, per: 'month' })],
  [tenant, key('two', { limit: 250n, per: 'day' })]
]
/** How long threads race. */
const hours = 100

/** Says, for every seat, that everything it did some hours before is published. */
function settleAll(seats: Seats, arena: Arena, now: number): void {
  const directory = new Directory(arena.cells, seats.own)
  for (const { id, budgets } of new Set(callers.flat()))
    for (let back = 3; back < 40; back++)
      for (const window of windowsOf(spansOf(budgets), now - back * hour)) {
        const place = directory.look(nameOf(id, window))
        if (!place) continue
        seats.own.change([place.lock], () => {
          if (!directory.isAt(place)) return
          for (let seat = 0; seat < arena.seats; seat++)
            settle(seats.own, place.row, seat, shareOf(arena, place.row, seat))
        })
      }
}

t.test('threads that race while hours pass and rows are forgotten are admitted what one process admits', async (t) => {
  const workers = 3
  const arena = Arena.create({ seats: workers + 1, sets: 2, cells: 256 })
  arena.begin(horizonOf(noon))
  const seats = new Seats(arena)
  const rows = new BalanceRows(seats.own)
  const scratch = new Int32Array(new SharedArrayBuffer(64))
  const threads = Array.from({ length: workers }, () =>
    startTask(t, {
      task: 'spendOn',
      arena: arena.buffer,
      scratch: scratch.buffer,
      seat: seats.give(),
      with: { scopes: callers, hours }
    })
  )
  const results = threads.map((thread) => resultOf<'spendOn'>(thread))
  await eventually(() => Atomics.load(scratch, 2) === workers)
  Atomics.store(scratch, 0, 1)
  Atomics.notify(scratch, 0)
  let forgotten = 0
  for (let passed = 1; passed <= hours; passed++) {
    Atomics.store(scratch, 4, passed)
    Atomics.notify(scratch, 4)
    const now = noon + passed * hour
    await seats.patiently(() => settleAll(seats, arena, now))
    forgotten += rows.sweep(1000, Math.floor(now / hour) - 3)
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  const log = (await Promise.all(results)).flat().sort((a, b) => a.order - b.order)
  const alone = pursesOf(new Balances(horizon(noon)))
  const open = new Map<string, Purse>()
  let [alike, refused] = [0, 0]
  for (const { key, amount, held, time, hold, refusedBy } of log) {
    if (held !== undefined) {
      open.get(hold)!.post(held, amount)
      alike++
      continue
    }
    const purse = alone.of(callers[key]!, time)
    open.set(hold, purse)
    let due: string | undefined
    try {
      purse.hold(amount)
    } catch (error) {
      due = (error as GatewayError).code
    }
    if (due !== undefined) refused++
    if (due === refusedBy) alike++
  }
  t.equal(alike, log.length, 'what agrees')
  t.ok(refused > 100, `${refused} of ${log.length} were refused`)
  t.ok(forgotten > 100, `${forgotten} rows were forgotten meanwhile`)
  // What is there in the end is what one process has.
  const last = noon + Atomics.load(scratch, 4) * hour
  const shared = pursesOf(new WorkerCells(seats.own))
  for (const scopes of callers)
    t.same(shared.of(scopes, last).standings(), alone.of(scopes, last).standings(), scopes.at(-1)!.id)
})

t.test('a balance that was forgotten, and is asked for again, lies elsewhere and is as stored', (t) => {
  const arena = Arena.create({ seats: 2, sets: 2, cells: 8 })
  const since = Math.floor(noon / (24 * hour)) * 24 * hour
  arena.begin(since)
  const seats = new Seats(arena)
  const seat = new Seat(arena, seats.give())
  const cells = new WorkerCells(seat)
  const [day] = windowsOf('day', noon) as [string]
  const stored = { scope: 'tenant:acme', window: day, limit: null, posted: 5n, pending: 0n }
  cells.load([stored])
  t.equal(cells.find('tenant:acme', day)!.posted, 5n)
  const later = since + 24 * hour
  cells.forget(later)
  t.equal(new BalanceRows(seats.own).sweep(100, later / hour), 1)
  const other = cells.cell('tenant:other', 'total', 'tenant:other')
  seat.change([lockOf('tenant:other')], () => other.hold(70n, []))
  cells.reach(since)
  cells.load([{ ...stored, posted: 6n, pending: 1n }])
  cells.reached(since)
  const { posted, pending } = cells.find('tenant:acme', day)!
  t.same([posted, pending], [6n, 1n])
  t.equal(other.used, 70n)
  t.end()
})

t.test('when there is no room for balances, requests are refused, and what is open ends nevertheless', async (t) => {
  const arena = Arena.create({ seats: 2, sets: 2, cells: 8 })
  arena.begin(horizonOf(noon))
  const seats = new Seats(arena)
  const seat = new Seat(arena, seats.give())
  const purses = pursesOf(new WorkerCells(seat))
  const purse = purses.of(callers[0]!, noon)
  purse.hold(5n)
  // Everything that is held was published, and some hours later its rows of hours are forgotten.
  const rows = new BalanceRows(seats.own)
  const later = noon + 5 * hour
  settleAll(seats, arena, later)
  t.equal(rows.sweep(100, Math.floor(later / hour) - 3), 2)
  let refused: unknown
  for (let at = 0; at < 9 && !refused; at++)
    try {
      purses.of([key(`other ${at}`)], later)
    } catch (error) {
      refused = error
    }
  t.match(refused, { code: 'billing_unavailable' })
  t.match((refused as Error).cause, /too many balances are in use: there are 8 names already/)
  purse.post(5n, 3n)
  const used = (): bigint => new WorkerCells(seats.own).cell('key:one', 'total', 'tenant:acme').used
  t.equal(used(), 5n, 'its charge waits for room')
  seats.own.change([lockOf('key:other 0')], () => {
    const directory = new Directory(arena.cells, seats.own)
    for (const name of ['key:other 0', 'key:other 1']) directory.forget(directory.look(nameOf(name, 'total'))!)
  })
  await eventually(() => used() === 3n)
  t.end()
})

t.test('the operator hears that the memory for balances is nearly full, and a start makes room', async (t) => {
  const file = `${t.testdir()}/store.db`
  const sizes = { seats: 2, sets: 2, cells: 16 }
  const names = ({ store }: Awaited<ReturnType<typeof openWorkerStore>>): string[] =>
    store.health().troubles.map(({ ailment }) => ailment)
  const full = await openWorkerStore({ file, durability: 'process', now: () => noon }, sizes)
  for (let at = 0; at < 16; at++) reserve(full.store.ledger, [key(`k${at}`)], 1n, { time: noon })
  t.throws(() => reserve(full.store.ledger, [key('more')], 1n, { time: noon }), { code: 'billing_unavailable' })
  await eventually(() => names(full).includes('balances'))
  await full.store.close()
  const roomy = await openWorkerStore({ file, durability: 'process', now: () => noon }, sizes)
  reserve(roomy.store.ledger, [key('more')], 1n, { time: noon })
  t.same(names(roomy), [])
  await roomy.store.close()
})
