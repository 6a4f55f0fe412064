// The stores as each implementation gives them, for tests that hold all of them to one contract.
import { join } from 'node:path'
import type { Test } from 'tap'
import type { KeptHold } from '../../core/store/embedded/book/book.ts'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { Database } from '../../core/store/cluster/database/database.ts'
import { openSharedBook } from '../../core/store/cluster/shared-book.ts'
import { openStore } from '../../core/store/embedded/store.ts'
import type { OwnStore, StoreOptions } from '../../core/store/embedded/store.ts'
import { Custody } from '../../core/handover/custody.ts'
import { Arena } from '../../core/store/shared/arena/arena.ts'
import { sharedNow } from '../../core/store/shared/arena/clock.ts'
import { Desk } from '../../core/store/shared/desk/desk.ts'
import { joinStore } from '../../core/store/shared/desk/join.ts'
import { WorkerLimits } from '../../core/store/shared/arena/limits.ts'
import { Seat } from '../../core/store/shared/arena/seat.ts'
import { Seats } from '../../core/store/shared/arena/seats.ts'
import { openWorkerStore } from '../../core/store/shared/worker-store.ts'
import type { Ledger } from '../../core/store/ledger.ts'
import type { Limits } from '../../core/store/limits.ts'
import type { Services } from '../../core/store/services.ts'
import { handOver, servicesOf, vaultOf } from './hand-over.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from './cluster-money.ts'
import { postgresMissing, sharedPostgres } from './postgres.ts'
import { sharedLimits } from './limits.ts'
import { RedisServer, redisMissing } from './redis.ts'

/** The name of a part of the stores. */
export type Part = keyof Services

/** What a process uses of its stores, and a way to end them. */
export interface Stores {
  readonly services: Partial<Services>
  /** Resolves when everything is where a start finds it. */
  flush(): Promise<void>
  /** Ends the stores. Throws when the books of what was stored do not hold. */
  close(): Promise<void>
}

/** One way to keep what is stored. */
export interface Implementation {
  readonly name: string
  /** The parts that it has. Default: all. */
  readonly parts?: readonly Part[]
  /** Why its tests are skipped here. */
  readonly skip?: string | false
  /** Opens empty stores, which the test closes in its end. `now`: Unix milliseconds. */
  open(t: Test, now?: () => number): Promise<Stores>
}

function opener(
  file: string,
  now?: () => number,
  options: Partial<StoreOptions> = {}
): (kept?: readonly KeptHold[]) => Promise<OwnStore> {
  return (kept = []) => openStore({ file, durability: 'process', kept, ...options, ...(now && { now }) })
}

function checked(t: Test, file: string, end: () => Promise<void>): () => Promise<void> {
  let closed: Promise<void> | undefined
  const close = (): Promise<void> =>
    (closed ??= end().then(() => {
      const wrong = verify(file)
      if (wrong.length > 0) throw new Error(`the books do not hold: ${JSON.stringify(wrong)}`)
    }))
  t.teardown(close)
  return close
}

function ownStore(name: string, options: Partial<StoreOptions> = {}): Implementation {
  return {
    name,
    async open(t, now) {
      const file = join(t.testdir(), 'sluice.db')
      const open = opener(file, now, options)
      const custody = new Custody(await open(), open)
      return {
        services: servicesOf(custody),
        flush: () => custody.store.flush(),
        close: checked(t, file, () => custody.close())
      }
    }
  }
}

const embedded = ownStore('a store of its own')
/** With small segments, so that a test has many. */
const inSegments = ownStore('a journal in segments', { form: 'segments', segments: { least: 4096, most: 65_536 } })

/** The stores of a process that has handed over, and goes on with what it had begun. */
const handedOver: Implementation = {
  name: 'the store of the next process',
  async open(t, now) {
    const file = join(t.testdir(), 'sluice.db')
    const open = opener(file, now)
    const before = new Custody(await open(), open)
    const { after } = await handOver(before, open)
    return {
      services: servicesOf(before),
      flush: () => after.store.flush(),
      close: checked(t, file, () => after.close())
    }
  }
}

/** The parts of the store that gateways share in PostgreSQL. */
const postgres: Implementation = {
  name: 'PostgreSQL',
  parts: ['documents', 'routes', 'works', 'vault', 'answers', 'claims', 'requests', 'secrets'],
  skip: postgresMissing,
  async open(t, now) {
    const server = await sharedPostgres()
    const database = await Database.open({ url: await server.book() })
    const bounds = { routeAge: 1e9, answers: { age: 1e9, size: 2 ** 30 }, requests: { age: 1e9, size: 2 ** 30 } }
    const { flush, ...book } = await openSharedBook(database, bounds, { now })
    const close = async (): Promise<void> => {
      await book.close()
      await database.close()
    }
    t.teardown(close)
    const { documents, routes, works, answers, claims, requests, secrets } = book
    const vault = vaultOf(works)
    return { services: { documents, routes, works, vault, answers, claims, requests, secrets }, flush, close }
  }
}

/** The limits of many nodes. */
const redis: Implementation = {
  name: 'Redis',
  parts: ['limits'],
  skip: redisMissing,
  async open(t) {
    const { url } = await RedisServer.start(t)
    const limits = await sharedLimits(t, { url })
    return { services: { limits }, flush: async () => {}, close: () => limits.close() }
  }
}

/** The limits of two workers of one gateway, which are asked by turns. */
const workers: Implementation = {
  name: 'memory that workers share',
  parts: ['limits'],
  async open() {
    const arena = Arena.create({ seats: 3, sets: 64, cells: 2 })
    const seats = new Seats(arena)
    const each = [1, 2].map(() => new WorkerLimits(new Seat(arena, seats.give()), sharedNow))
    let asked = 0
    const next = (): WorkerLimits => each[asked++ % each.length]!
    const limits: Limits = {
      decide: (sets, tokens, within) => next().decide(sets, tokens, within),
      look: (sets, tokens) => next().look(sets, tokens)
    }
    return { services: { limits }, flush: async () => {}, close: async () => {} }
  }
}

/** The ledger of two workers of one gateway, which are asked by turns, and the rest of their supervisor. */
const workersMoney: Implementation = {
  name: 'a store that workers share',
  parts: ['documents', 'ledger', 'requests', 'answers', 'routes', 'works', 'vault'],
  async open(t, now = Date.now) {
    const file = join(t.testdir(), 'sluice.db')
    const workers = await openWorkerStore({ file, durability: 'process', now }, { seats: 3, sets: 2, cells: 1024 })
    const { store } = workers
    // A gateway has servers that keep it running.
    const running = setInterval(() => {}, 1000)
    const desks = [1, 2].map(() => new Desk(workers.give(), now))
    let asked = 0
    const next = (): Ledger => desks[asked++ % desks.length]!.ledger
    const ledger: Ledger = {
      reserve: (request) => next().reserve(request),
      look: (request) => next().look(request),
      detached: (requestId, part) => next().detached(requestId, part),
      scopes: () => [...new Set(desks.flatMap(({ ledger }) => ledger.scopes()))],
      balances: (filter) => next().balances(filter),
      watch: (watcher) => next().watch(watcher),
      affordable: (scopes, time) => next().affordable(scopes, time),
      standings: (scopes, time) => next().standings(scopes, time),
      price: (version) => next().price(version)
    }
    const flush = async (): Promise<void> => {
      for (const { drafts } of desks) await drafts.flushed()
      await store.flush()
    }
    const close = checked(t, file, async () => {
      await flush()
      await store.close()
      clearInterval(running)
    })
    const { documents, requests, answers, routes, works } = store
    const vault = vaultOf(works)
    return { services: { documents, ledger, requests, answers, routes, works, vault }, flush, close }
  }
}

/** All that a worker has of a store: what it decides and writes itself, and what it asks its supervisor for. */
const worker: Implementation = {
  name: 'the store of a worker',
  async open(t, now) {
    const file = join(t.testdir(), 'sluice.db')
    const options = { file, durability: 'process', ...(now && { now }) } as const
    const workers = await openWorkerStore(options, { seats: 2, sets: 64, cells: 1024 })
    const running = setInterval(() => {}, 1000)
    const seated = await joinStore(workers.give(), now)
    return {
      services: servicesOf(seated),
      flush: () => seated.store.flush(),
      close: checked(t, file, async () => {
        await seated.store.close()
        await workers.store.close()
        clearInterval(running)
      })
    }
  }
}

/** The ledger of a node whose book is in PostgreSQL. */
const sharedMoney: Implementation = {
  name: 'a book that nodes share',
  parts: ['ledger'],
  skip: postgresMissing,
  async open(t, now) {
    const url = await moneyBook()
    const node = await moneyNode(t, url, 'one', { folder: logFolder(t), now })
    return {
      services: { ledger: node.ledger },
      flush: () => node.flush(),
      async close() {
        await node.close()
        const wrong = await brokenIn(url)
        if (wrong.length > 0) throw new Error(`the books do not hold: ${JSON.stringify(wrong)}`)
      }
    }
  }
}

/** All of them. */
const implementations: readonly Implementation[] = [
  embedded,
  inSegments,
  handedOver,
  workers,
  workersMoney,
  worker,
  postgres,
  sharedMoney,
  redis
]

/** Runs a test with each implementation that has these parts. */
export function eachStore<P extends Part>(
  t: Test,
  parts: readonly P[],
  what: string,
  run: (t: Test, stores: Stores & { readonly services: Pick<Services, P> }) => Promise<void>,
  now?: () => number
): void {
  for (const { name, parts: has, skip = false, open } of implementations)
    if (!has || parts.every((part) => has.includes(part)))
      void t.test(`${name}: ${what}`, { skip }, async (t) => {
        const stores = await open(t, now)
        await run(t, stores as Stores & { readonly services: Pick<Services, P> })
        await stores.close()
      })
}
