// A worker in a thread of its own that has all of the store: does everything that leaves something behind, until it is
// ended.
import { workerData } from 'node:worker_threads'
import { joinStore } from '../../../../core/store/shared/desk/join.ts'
import type { Seated } from '../../../../core/store/shared/desk/seat-store.ts'
import type { Place } from '../../../../core/store/shared/worker-store.ts'
import { noon, reserve, work } from '../embedded/sample.ts'
import { scopes, sets } from './serving.ts'

/** What it is started with. */
export interface Joining {
  readonly place: Place
  /** How the names of what it makes begin. */
  readonly name: string
  /** A byte for each thing that it makes: whether somebody was told of it. `hangs`: the byte that says it has hung. */
  readonly made: SharedArrayBuffer
  readonly hangs?: boolean
}

export const owner = { tenant: 'acme', project: 'web' }
/** How many things it makes at the same time. */
export const atOnce = 4

/** The id of an answer. */
export function answerId(name: string): Buffer {
  return Buffer.from(name.padEnd(32, '.'))
}

export const answered = {
  asked: Buffer.from('asked'),
  status: 200,
  type: 'application/json',
  headers: {},
  streamed: false,
  body: Buffer.from('{}')
}

/** What is made by turns: a task that goes on, an answer under a claim, and a route. */
async function make({ store, limits, claims }: Seated, name: string, at: number): Promise<void> {
  const decision = limits.decide(sets, 10)
  if (!decision.admitted) throw new Error('slots are lacking')
  const claim = `claim of ${name}`
  if (await claims.take(claim, answered.asked)) throw new Error('somebody else has the claim')
  const hold = reserve(store.ledger, scopes, 50n, { requestId: `request of ${name}` })
  if (at % 3 === 0) {
    hold.dispatched('openai')
    await Promise.all([hold.detach(noon + 1e9), store.works.put(work(name))])
    claims.leave(claim)
  } else {
    const ended = hold.void()
    claims.leave(claim)
    const [put] =
      at % 3 === 1
        ? [store.answers.put(answerId(name), 'acme', answered)]
        : [store.routes.put([{ ...owner, id: name, kind: 'response', channel: 'one', account: 'a', model: 'gpt-5' }])]
    await Promise.all([ended, put])
  }
  decision.lease.release(10)
}

async function run({ place, name, made, hangs = false }: Joining): Promise<void> {
  const seated = await joinStore(place, () => noon)
  const told = new Uint8Array(made)
  if (hangs) {
    told[0] = 1
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  }
  setInterval(() => {}, 1000)
  let next = 0
  const client = async (): Promise<void> => {
    while (next < told.length) {
      const at = next++
      await make(seated, `${name} ${at}`, at)
      Atomics.store(told, at, 1)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, client))
}

if (workerData?.made) await run(workerData as Joining)
