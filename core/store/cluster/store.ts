// Opens the store that many gateways share: the book in PostgreSQL, the limits in Redis, and the place of this node.
import { randomUUID } from 'node:crypto'
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
import { Database } from './database/database.ts'
import { openSharedLimits } from './limits/open.ts'
import { limitNode } from './limits/limits.ts'
import type { SharedLimits, SharedLimitsOptions } from './limits/limits.ts'
import { openMoney } from './money/money.ts'
import { NodeSlot } from './node-slot.ts'
import type { NodePlace } from './node-slot.ts'
import { Presence } from './presence.ts'
import { openSharedBook } from './shared-book.ts'
import type { BookBounds, SharedBook } from './shared-book.ts'
import type { Serve } from './works/errands.ts'
import { giveUpAll } from './works/ownership.ts'
import { SpendBook } from './spend/spend-book.ts'

/** How often the journal is added up, in milliseconds, so that no query has much to add. */
const gatherEvery = 5000

/** What a worker is in the store that its gateway shares with others: a node of its own. */
export interface WorkerNode extends NodePlace {
  /** The name of the node that is its gateway. */
  readonly of: string
  /** Whose its open work is, and its name among the limits. Each start of a worker has others. */
  readonly owner: string
  readonly limits: string
}

/** Where and how to store. */
export interface SharedStoreOptions {
  readonly place: SharedPlace
  /** How many workers the gateway has, each with the store in its own thread. Default: none. */
  readonly workers?: number | undefined
  /** Of a worker. Without it a slot of the folder is taken, and what is over is removed from here. */
  readonly worker?: WorkerNode | undefined
  /** Is told of the keys of slots that this node may take. */
  readonly onSlots?: SharedLimitsOptions['onSlots']
  /** Of the node's own log. */
  readonly durability: Durability
  readonly bounds: BookBounds
  readonly log: Logger
}

/** A shared store as one node has it, with its limits and claims. */
export interface SharedStore extends Store {
  readonly documents: SharedBook['documents']
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
  /** The node of a worker of this gateway that is about to start, by its number from 1 on. */
  workerNode(number: number): WorkerNode
  /**
   * Takes over at once what a worker has left that is gone: sends what is in its log, ends its holds by estimate, and
   * gives up its slices, its open work and its slots. `slots`: the keys of these, by their homes.
   * @throws DatabaseFault while PostgreSQL is away: the next start of the worker does it
   */
  bringHome(worker: WorkerNode, slots: ReadonlyMap<string, ReadonlySet<string>>): Promise<void>
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
  { place, workers = 0, worker, onSlots, durability, bounds, log }: SharedStoreOptions,
  closes: (() => unknown)[],
  close: () => Promise<void>
): Promise<SharedStore> {
  const { postgres, redis, on_limits_unavailable: onLimitsUnavailable, folder } = place
  const slot = worker ? undefined : takeSlot(folder)
  closes.push(() => slot?.release())
  const { name: node, log: ownLog } = worker ?? slot!
  const name = `sluice ${node}`
  // Behind a pooler the server has the pooler's connections, however many gateways there are. A gateway asks for all.
  if (!worker && postgres.listen_url === undefined) await checkCapacity(postgres.url, workers, name)
  const connections = { url: postgres.url, listenUrl: postgres.listen_url, name, log }
  const database = await Database.open({ ...connections, serving: worker !== undefined })
  closes.push(() => database.close())
  const presence = await Presence.open(database, node, version, worker?.of)
  closes.push(() => presence.close())
  const book = await openSharedBook(database, bounds, { log, owner: worker?.owner, sweeps: !worker })
  closes.push(() => book.close())
  const limits = await openSharedLimits(redis, onLimitsUnavailable, log, {
    liveNodes: () => presence.count,
    node: worker?.limits,
    onSlots
  })
  closes.push(() => limits.close())
  const corrected = (requestId: string): void => book.requests.corrected(requestId)
  const common = { database, durability, requests: book.requests, corrected, log }
  const uncharged = book.requests.uncharged.bind(book.requests)
  const leaving = (): void => limits.flush()
  const money = await openMoney({ ...common, uncharged, leaving, node, folder: ownLog })
  book.requests.follows = () => money.ledger.decided()
  book.answers.follows = (requestId) => money.ledger.turn.durable(requestId)
  closes.push(() => money.close())
  const spend = new SpendBook(database)
  const upkeep = new AbortController()
  const kept = slot ? [gatherAll(spend, upkeep.signal), sendLeftovers(folder, slot.left(workers), common)] : []
  closes.push(async () => {
    upkeep.abort()
    await Promise.all(kept)
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
  if (slot)
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
    workerNode: (number) => ({ ...slot!.worker(number), of: node, owner: randomUUID(), limits: limitNode() }),
    async bringHome({ name, log: folder, owner, limits: node }, slots) {
      limits.free(node, slots)
      const left = await openMoney({ ...common, node: name, folder })
      await left.close()
      await giveUpAll(database, owner)
    },
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

function takeSlot(folder: string): NodeSlot {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return NodeSlot.take(folder)
}

/** What the ledger of a node needs that is the same for all. */
type Common = Omit<Parameters<typeof openMoney>[0], 'node' | 'folder'> & { readonly log: Logger }

/** Sends what nodes of this process that are no more have left, and processes that had other slots of its folder. */
async function sendLeftovers(folder: string, own: readonly NodePlace[], common: Common): Promise<void> {
  for (const place of own) await sendLeft(place, common)
  for (const slot of NodeSlot.abandoned(folder)) {
    for (const place of [slot, ...slot.left()]) await sendLeft(place, common)
    slot.release()
  }
}

/** Never rejects. */
async function sendLeft({ name: node, log: folder }: NodePlace, common: Common): Promise<void> {
  try {
    const money = await openMoney({ ...common, node, folder })
    await money.close()
  } catch (error) {
    const message = (error as Error).message
    common.log.error('what an ended process has left in its log could not be sent', { folder, error: message })
  }
}
