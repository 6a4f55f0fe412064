// A worker in a thread of its own: serves requests, several at once, until it is ended.
import { workerData } from 'node:worker_threads'
import type { LimitSet } from '../../../../core/catalogue/caller.ts'
import { sharedNow } from '../../../../core/store/shared/arena/clock.ts'
import { Desk } from '../../../../core/store/shared/desk/desk.ts'
import type { Place } from '../../../../core/store/shared/worker-store.ts'
import { WorkerLimits } from '../../../../core/store/shared/arena/limits.ts'
import { noon, record, reserve, scope, used } from '../embedded/sample.ts'

/** What it is started with. */
export interface Serving {
  readonly place: Place
  /** How the ids of its requests begin. */
  readonly name: string
  /** A byte for each request: what its client was told. */
  readonly told: SharedArrayBuffer
}

/** What a client was told: that it is admitted, and the end. */
export const [admitted, finished] = [1, 2]

/** Whom the requests are of, and how many of them run at the same time at most. */
export const scopes = [scope('tenant', 'acme', 10n ** 12n, 'month'), scope('key', 'laptop')]
export const slots = 24
export const sets: readonly LimitSet[] = [
  { id: 'key', home: 'tenant:acme', level: 'key', scope: 'key', models: null, rates: { concurrency: slots } }
]

/** What a request is charged, by its number. */
export function chargeOf(at: number): number {
  return at % 90
}

const atOnce = 6

async function work({ place, name, told }: Serving): Promise<void> {
  const { seat, ledger, requests } = new Desk(place, () => noon)
  const limits = new WorkerLimits(seat, sharedNow)
  const clients = new Uint8Array(told)
  const exchange = async (at: number): Promise<void> => {
    const decision = limits.decide(sets, 10)
    if (!decision.admitted) throw new Error('slots are lacking')
    const requestId = `${name} ${at}`
    const hold = reserve(ledger, scopes, 100n, { requestId })
    if (at % 3 !== 0) {
      await hold.durable
      Atomics.store(clients, at, admitted)
    }
    hold.dispatched('openai')
    if (at % 4 === 0) {
      hold.delivered(5)
      await new Promise((resolve) => setTimeout(resolve, at % 16))
    }
    const amount = chargeOf(at)
    const ended = hold.settle({ usage: used(amount), amount: BigInt(amount), source: 'upstream', channel: 'openai' })
    requests.append(record({ request_id: requestId, usage: used(amount), cost_nano: String(amount) }))
    await ended
    Atomics.store(clients, at, finished)
    decision.lease.release(10)
  }
  // A thread of a gateway has a server that keeps it running.
  setInterval(() => {}, 1000)
  let next = 0
  const client = async (): Promise<void> => {
    while (next < clients.length) await exchange(next++)
  }
  await Promise.all(Array.from({ length: atOnce }, client))
}

if (workerData?.told) await work(workerData as Serving)
