// Opens the store that many gateways share: the book in PostgreSQL, the limits in Redis, and the place of this node.
import { setTimeout as sleep } from 'node:timers/promises'
import { mkdirSync } from 'node:fs'
import type { SharedPlace } from '../../catalogue/store-place.ts'
import type { Logger } from '../../telling/log.ts'
import { version } from '../../telling/version.ts'
import type { Durability } from '../embedded/files/sqlite.ts'
import type { Store } from '../store.ts'
import type { Work } from '../works.ts'
import { Condition } from './condition.ts'
import { checkCapacity } from './database/capacity.ts'
import { connectionsOfProcess, Database } from './database/database.ts'
import { openSharedLimits } from './limits/open.ts'
import type { SharedLimits } from './limits/limits.ts'
import { openMoney } from './money/money.ts'
import { NodeSlot } from './node-slot.ts'
import { Presence } from './presence.ts'
import { openSharedBook } from './shared-book.ts'
import type { BookBounds, SharedBook } from './shared-book.ts'
import type { Serve } from './works/errands.ts'
import { SpendBook } from './spend/spend-book.ts'

/** How often the journal is added up, in milliseconds, so that no query has much to add. */
const gatherEvery = 5000

/** Where and how to store. */
export interface SharedStoreOptions {
  readonly place: SharedPlace
  /** Of the node's own log. */
  readonly durability: Durability
  readonly bounds: BookBounds
  readonly log: Logger
}

/** A shared store as one node has it, with its limits and claims. */
export interface SharedStore extends Store {
  readonly works: SharedBook['works']
  readonly limits: SharedLimits
  readonly claims: SharedBook['claims']
  readonly secrets: SharedBook['secrets']
  /**
   * Calls `goOn` with work of gateways that are gone, when this one has its hold too, and `serve` with what others
   * ask of the work of this one. Without them nothing is taken over, or done for others.
   */
  follow(goOn: ((work: Work) => void) | undefined, serve?: Serve): void
  /** Tells the others which configuration is in use: its hash. */
  tellConfig(hash: string): void
}

/**
 * Joins the gateways of a store. It waits a moment for Redis, without which it goes on all the same.
 * @throws Error when PostgreSQL cannot be reached, has no room for the connections, or belongs to a newer version; when
 * the folder cannot be written, or the node's log is damaged
 */
export async function openSharedStore(options: SharedStoreOptions): Promise<SharedStore> {
  const closes: (() => unknown)[] = []
  const close = async (): Promise<void> => {
    for (const one of closes.splice(0).reverse()) await one()
  }
  try {
    return await open(options, closes, close)
  } catch (error) {
    await close()
    throw error
  }
}

async function open(
  { place, durability, bounds, log }: SharedStoreOptions,
  closes: (() => unknown)[],
  close: () => Promise<void>
): Promise<SharedStore> {
  const { postgres, redis, on_limits_unavailable: onLimitsUnavailable, folder } = place
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const slot = NodeSlot.take(folder)
  closes.push(() => slot.release())
  const { name: node } = slot
  // Behind a pooler the server has the pooler's connections, however many gateways there are.
  if (postgres.listen_url === undefined) await checkCapacity(postgres.url, connectionsOfProcess, `sluice ${node}`)
  const name = `sluice ${node}`
  const database = await Database.open({ url: postgres.url, listenUrl: postgres.listen_url, name, log })
  closes.push(() => database.close())
  const presence = await Presence.open(database, node, version)
  closes.push(() => presence.close())
  const book = await openSharedBook(database, bounds, { log })
  closes.push(() => book.close())
  const limits = await openSharedLimits(redis, onLimitsUnavailable, log, () => presence.nodes.length)
  closes.push(() => limits.close())
  const corrected = (requestId: string): void => book.requests.corrected(requestId)
  const common = { database, durability, requests: book.requests, corrected, log }
  const uncharged = book.requests.uncharged.bind(book.requests)
  const leaving = (): void => limits.flush()
  const money = await openMoney({ ...common, uncharged, leaving, node, folder: slot.log })
  book.requests.follows = () => money.ledger.decided()
  closes.push(() => money.close())
  const spend = new SpendBook(database)
  const upkeep = new AbortController()
  const gathering = gatherAll(spend, upkeep.signal)
  const leftovers = sendLeftovers(folder, common)
  closes.push(async () => {
    upkeep.abort()
    await Promise.all([gathering, leftovers])
  })
  const { documents, requests, works } = book
  const condition = new Condition({
    database,
    presence,
    money,
    documents,
    requests,
    works,
    limits,
    onLimitsUnavailable
  })
  closes.push(() => condition.close())
  for (const until = performance.now() + redis.connect_timeout; !limits.health.usable && performance.now() < until;)
    await sleep(10)
  log.info('this gateway is a node of a shared store', { node, store: postgres.shown, nodes: presence.nodes.length })
  const { answers, routes, claims, secrets } = book
  works.bring = (work) => money.adopt(work.requestId)
  return {
    documents,
    ledger: money.ledger,
    requests,
    answers,
    routes,
    works,
    limits,
    claims,
    secrets,
    async spend(query) {
      await money.flush()
      return spend.query(query)
    },
    traffic: (query) => requests.traffic(query),
    async flush() {
      await Promise.all([money.flush(), book.flush()])
    },
    health: () => condition.health,
    nodes: () => presence.nodes,
    follow(goOn, serve) {
      works.serve = serve
      works.onTaken = goOn
    },
    tellConfig: (hash) => presence.use(hash),
    close
  }
}

async function gatherAll(spend: SpendBook, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sleep(gatherEvery * (0.5 + Math.random()), undefined, { signal }).catch(() => {})
    // What cannot be added up now is added up later.
    while (!signal.aborted && (await spend.gather().catch(() => false)));
  }
}

/** Sends what processes that ended in other slots of this machine could not. */
async function sendLeftovers(
  folder: string,
  common: Omit<Parameters<typeof openMoney>[0], 'node' | 'folder'> & { log: Logger }
): Promise<void> {
  for (const slot of NodeSlot.abandoned(folder)) {
    try {
      const money = await openMoney({ ...common, node: slot.name, folder: slot.log })
      await money.close()
    } catch (error) {
      const message = (error as Error).message
      common.log.error('what an ended process has left in its log could not be sent', {
        folder: slot.log,
        error: message
      })
    } finally {
      slot.release()
    }
  }
}
