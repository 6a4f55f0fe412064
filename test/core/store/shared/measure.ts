// Prints what the operations on the shared memory cost: alone, and when threads race for the locks of one
// tenant; beside
// what the same costs in the memory of one process. `node test/core/store/shared/measure.ts`
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import type { Limits } from '../../../../core/store/limits.ts'
import { MemoryLimits } from '../../../../core/store/memory/limits.ts'
import { Cell } from '../../../../core/store/embedded/balance/cell.ts'
import { Purse } from '../../../../core/store/embedded/balance/purse.ts'
import { Arena } from '../../../../core/store/shared/arena/arena.ts'
import { sharedNow } from '../../../../core/store/shared/arena/clock.ts'
import { WorkerLimits } from '../../../../core/store/shared/arena/limits.ts'
import { Seat } from '../../../../core/store/shared/arena/seat.ts'
import { Seats } from '../../../../core/store/shared/arena/seats.ts'
import { createBell, createRing, RingReader, RingWriter } from '../../../../core/store/shared/records/ring.ts'
import { scope } from '../embedded/sample.ts'
import { purseOf, setsOf } from './tasks.ts'

const times = 100_000
const rates = { rps: 1e6, rpm: 1e7, tpm: 1e9, concurrency: 1000 }
const [sets] = setsOf([rates, rates, rates], [rates])
const scopes = (['tenant', 'project', 'member', 'key'] as const).map((kind) => scope(kind, 'acme', 10n ** 18n))

/** Nanoseconds of one call, and those of the slowest of 1000. */
function cost(work: () => void): { mean: number; slow: number } {
  for (let i = 0; i < times / 5; i++) work()
  const began = performance.now()
  for (let i = 0; i < times; i++) work()
  const mean = ((performance.now() - began) * 1e6) / times
  const each: number[] = []
  for (let i = 0; i < 20_000; i++) {
    const from = process.hrtime.bigint()
    work()
    each.push(Number(process.hrtime.bigint() - from))
  }
  return { mean, slow: each.sort((a, b) => a - b)[Math.floor(each.length * 0.999)]! }
}

function decideBy(limits: Limits): () => void {
  return () => {
    const decision = limits.decide(sets!, 20)
    if (!('then' in decision) && decision.admitted) decision.lease.release(10)
  }
}

function holdBy(purse: Purse): () => void {
  return () => {
    purse.hold(40n)
    purse.post(40n, 3n)
  }
}

function inProcess(): Purse {
  const cells = scopes.map(({ id }) => Cell.of(id, 'total'))
  const limited = scopes.map((scope, at) => ({ scope, budget: scope.budgets[0]!, balance: cells[at]! }))
  return new Purse({ scopes: '{}', tags: null }, { from: 0, until: 1 }, cells, limited, [])
}

function shared(seat: Seat): Record<string, () => void> {
  return {
    'a change of one unit': () => seat.change([7], () => seat.save(8)),
    'limits of four sets: decide and release': decideBy(new WorkerLimits(seat, sharedNow)),
    'four budgets: hold and charge': holdBy(purseOf(seat, scopes))
  }
}

function show(what: string, { mean, slow }: { mean: number; slow: number }): void {
  console.log(`| ${what} | ${mean.toFixed(0)} | ${slow.toFixed(0)} |`)
}

async function main(): Promise<void> {
  console.log('| | ns | ns, one of 1000 |\n|---|---|---|')
  show('one process: limits of four sets, decide and release', cost(decideBy(new MemoryLimits())))
  show('one process: four budgets, hold and charge', cost(holdBy(inProcess())))
  const arena = Arena.create({ seats: 5, sets: 64, cells: 64 })
  const seats = new Seats(arena)
  const seat = seats.give()
  for (const [what, work] of Object.entries(shared(new Seat(arena, seat)))) show(`alone: ${what}`, cost(work))
  const [ring, bell] = [createRing(1 << 20), createBell()]
  const [writer, reader] = [new RingWriter(ring, bell), new RingReader(ring)]
  const record = new Uint8Array(700)
  const send = (): void => {
    void writer.send(record)
    reader.take()
    reader.acknowledge(reader.position)
  }
  show('alone: a record of 700 bytes, written and read', cost(send))
  await seats.leave(seat, () => [])
  for (const threads of [2, 4])
    for (const what of Object.keys(shared(new Seat(arena, 0)))) {
      const own = Array.from({ length: threads }, () => seats.give())
      const go = new Int32Array(new SharedArrayBuffer(8))
      const found = own.map((seat) => {
        const worker = new Worker(new URL(import.meta.url), { workerData: { arena: arena.buffer, seat, what, go } })
        return new Promise<{ mean: number; slow: number }>((resolve) => worker.once('message', resolve))
      })
      while (Atomics.load(go, 1) < threads) await new Promise((resolve) => setTimeout(resolve, 5))
      Atomics.store(go, 0, 1)
      Atomics.notify(go, 0)
      const all = await Promise.all(found)
      for (const seat of own) await seats.leave(seat, () => [])
      // Each thread has taken that long for its calls; together they have made as many in that time as there are.
      const mean = all.reduce((sum, { mean }) => sum + mean, 0) / threads / threads
      show(`${threads} threads, one tenant: ${what}`, { mean, slow: Math.max(...all.map(({ slow }) => slow)) })
    }
}

if (isMainThread) await main()
else {
  const { arena, seat, what, go } = workerData as {
    arena: SharedArrayBuffer
    seat: number
    what: string
    go: Int32Array
  }
  const work = shared(new Seat(new Arena(arena), seat))[what]!
  Atomics.add(go, 1, 1)
  Atomics.wait(go, 0, 0)
  parentPort!.postMessage(cost(work))
}
