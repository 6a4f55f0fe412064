// A node of the shared book as a process of its own, which is stopped and killed while it works.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../../../../../core/errors.ts'
import { Database } from '../../../../../core/store/cluster/database/database.ts'
import { openMoney } from '../../../../../core/store/cluster/money/money.ts'
import type { Money } from '../../../../../core/store/cluster/money/money.ts'
import type { Reservation } from '../../../../../core/store/ledger.ts'
import { silentLog } from '../../../../../core/telling/log.ts'
import type { Logger } from '../../../../../core/telling/log.ts'
import { chance } from '../../../../kit/chance.ts'
import { scope } from '../../embedded/sample.ts'
import { charge, hold } from './oracle.ts'

/** What a process is given. */
export interface Orders {
  readonly url: string
  readonly node: string
  readonly folder: string
  readonly lease: number
  readonly seed: number
}

/** What it tells. `visible`: an answer is shown. `ended`: its end is durable. `late`: of an end that came too late. */
export type Told =
  | { readonly opened: true }
  | { readonly visible: string; readonly charged: number }
  | { readonly ended: string }
  | { readonly late: string }
  | { readonly wrong: string }

const orders = JSON.parse(process.argv[2]!) as Orders
const tell = (told: Told): void => void process.send?.(told)
const { below } = chance(orders.seed)
let stopping = false
process.on('message', () => (stopping = true))
process.on('disconnect', () => process.exit(0))

const log: Logger = {
  ...silentLog,
  error(message, fields) {
    const exchange = fields?.['exchange']
    if (fields && 'would_be_nano' in fields) tell({ late: String(exchange) })
    else if (!/the database has lost|refuses a request/.test(message))
      tell({ wrong: `${message} ${JSON.stringify(fields)}` })
  },
  child: () => log
}

/** Opens the node, again until the database lets it. */
async function open(): Promise<{ money: Money; database: Database }> {
  for (;;)
    try {
      const database = await Database.open({ url: orders.url, name: orders.node })
      try {
        const { node, folder, lease } = orders
        const requests = { append: (): void => {} }
        const money = await openMoney({ database, node, folder, lease, durability: 'process', requests, log })
        return { money, database }
      } catch (error) {
        await database.close()
        throw error
      }
    } catch (error) {
      if (/damaged/.test(String(error))) throw error
      await sleep(100)
    }
}

const { money, database } = await open()
tell({ opened: true })
const tenant = scope('tenant', 'acme', 10n ** 15n, 'month')

async function one(): Promise<void> {
  const requestId = randomUUID()
  const charged = 1 + below(1000)
  // Most go to a few keys, and now and then there is a new one.
  const key = below(20) === 0 ? randomUUID() : String(below(5))
  // One of them is soon used up.
  const limit = key === '4' ? 400_000n : 10n ** 15n
  let made: Reservation | undefined
  let shown = false
  try {
    made = await hold(money.ledger, [tenant, scope('key', key, limit)], 2000n, {
      requestId,
      time: Date.now(),
      ...(below(60) === 0 && { endpoint: 'a\0b' })
    })
    if (below(5) === 0) return await made.void()
    made.dispatched('openai')
    if (below(4) === 0) {
      // A whole answer is shown when its end is written, and most holds that end at once are written with it.
      await made.settle(charge(charged))
      tell({ visible: requestId, charged })
      return tell({ ended: requestId })
    }
    made.delivered(below(50))
    if (below(10) === 0) await made.detach(Date.now() + 600_000)
    await made.durable
    shown = true
    tell({ visible: requestId, charged })
    await settle(made, charged)
    tell({ ended: requestId })
  } catch (error) {
    // Whoever was not let in, or whose progress could not be kept, shows nothing.
    if (made && !shown) await giveBack(made)
    if (!(error instanceof GatewayError) && !/cannot be held/.test(String(error)))
      tell({ wrong: `${requestId}: ${String((error as Error).stack)}` })
  }
}

/** Gives a hold back, unless that was what failed. */
async function giveBack(made: Reservation): Promise<void> {
  try {
    await made.void()
  } catch {
    // It ends when the database is back, or was never there.
  }
}

async function settle(made: Reservation, charged: number): Promise<void> {
  await sleep(below(400))
  await made.settle(charge(charged))
}

const running = new Set<Promise<void>>()
const run = (work: Promise<void>): void => {
  const promise = work.finally(() => running.delete(promise))
  running.add(promise)
}
// What an earlier start has detached goes on here.
for (const made of money.ledger.open) run(settle(made, 77).catch(() => {}))
while (!stopping) {
  if (running.size < 60) run(one())
  await sleep(below(60))
}
await Promise.all(running)
await money.close()
await database.close()
process.exit(0)
