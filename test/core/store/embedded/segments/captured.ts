// The batches of a store as it runs on a random schedule, for tests of what is made of them.
import { randomUUIDv7 } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { Scope } from '../../../../../core/catalogue/caller.ts'
import { changeOf, documentKind } from '../../../../../core/store/documents.ts'
import type { Reservation } from '../../../../../core/store/ledger.ts'
import type { Work } from '../../../../../core/store/works.ts'
import type { Batch } from '../../../../../core/store/embedded/rows/batch.ts'
import { decodeBatch, FrameEncoder, headBytes } from '../../../../../core/store/embedded/log/frame.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { OwnStore } from '../../../../../core/store/embedded/store.ts'
import type { Start } from '../../../../../core/store/embedded/segments/chain.ts'
import type { Chance } from '../../../../kit/chance.ts'
import type { Form } from '../forms.ts'
import { giveBack, noon, query, reserve, scope, settle, used, work } from '../sample.ts'

const hour = 3_600_000
const things = documentKind<{ is: number }>('thing')

/** A batch that is counted over all starts, and the start that it is of. */
export interface Captured {
  readonly batch: Batch
  readonly start: Start
}

/** Keeps what is encoded while it is on: the last form of each batch, as one that could not be written is changed. */
class Capture {
  readonly batches = new Map<number, Batch>()
  readonly #encode = FrameEncoder.prototype.encode

  begin(): void {
    const [encode, batches] = [this.#encode, this.batches]
    FrameEncoder.prototype.encode = function (this: FrameEncoder, batch: Batch): Buffer {
      const frame = encode.call(this, batch)
      batches.set(batch.number, decodeBatch(Buffer.from(frame.subarray(headBytes)), undefined))
      return frame
    }
  }

  end(): void {
    FrameEncoder.prototype.encode = this.#encode
  }
}

const trees: Scope[][] = Array.from({ length: 6 }, (_, i) => [
  scope('tenant', `t${i % 2}`, 10n ** 12n, i % 2 ? 'month' : ('30d' as 'month')),
  scope('project', `t${i % 2}/p${i % 3}`),
  scope('key', `k${i}`, BigInt(10 ** 9 + i), 'day')
])

/** Runs a store for some starts, each with so many steps, and returns its batches. The store is closed in the end. */
export async function capture(
  file: string,
  chance: Chance,
  starts: number,
  steps: number,
  options: Form['options'] = { form: 'database' }
): Promise<Captured[]> {
  const all: Captured[] = []
  let now = noon
  for (let boot = 1; boot <= starts; boot++) {
    const capture = new Capture()
    capture.begin()
    try {
      const store = await openStore({ file, durability: 'process', now: () => now, ...options })
      await run(store, chance, steps, () => (now += chance.below(5) === 0 ? hour * chance.below(40) : chance.below(50)))
      await store.close()
    } finally {
      capture.end()
    }
    const [{ history } = {}] = query(file, `SELECT lower(hex(history)) AS history FROM boot WHERE boot_id = ${boot}`)
    const batches = [...capture.batches.values()].sort((one, other) => one.number - other.number)
    const before = all.length
    for (const batch of batches)
      all.push({ batch: { ...batch, number: before + batch.number }, start: { boot, history: history as string } })
  }
  return all
}

/** Does things by chance. What is still open in the end is detached, so that the next start goes on with it. */
async function run(store: OwnStore, chance: Chance, steps: number, tick: () => number): Promise<void> {
  const open = store.ledger.open.map((hold): Reservation => hold)
  const works: Work[] = [...store.works.open()]
  const deadline = noon + 10_000 * hour
  const attempt = (n: number) => ({
    attempt: n,
    channel: 'other',
    usage: used(n),
    amount: BigInt(n),
    source: 'upstream' as const
  })
  const under: Promise<unknown>[] = []
  for (let step = 0; step < steps; step++) {
    const time = tick()
    const one = open.length > 0 ? open.splice(chance.below(open.length), 1)[0]! : undefined
    const dice = chance.below(12)
    if (!one || dice < 4) {
      if (one) open.push(one)
      const part = dice === 0 && one ? { requestId: one.requestId, part: `response ${step}` } : {}
      const own = { version: `own:${chance.below(3)}`, perMillion: { output: 400_000n } }
      open.push(
        reserve(store.ledger, chance.pick(trees), BigInt(chance.below(5000)), {
          time: time - hour * chance.below(30),
          estimate: { input: 10, maxOutput: 100, ...(dice === 1 ? { pieces: { second: 3 } } : {}) },
          ...(dice === 2 ? { costs: new Map([['openai', own]]) } : {}),
          ...part
        })
      )
    } else if (dice < 7) under.push(settle(store, one, chance.below(5000)))
    else if (dice === 7) under.push(giveBack(store, one))
    else if (dice === 8)
      under.push(
        one.settle({
          usage: used(7),
          amount: 7n,
          source: 'estimated',
          channel: 'openai',
          costs: [attempt(0), attempt(1)]
        })
      )
    else {
      open.push(one)
      if (dice === 9) one.dispatched(chance.pick(['openai', 'other']))
      else if (dice === 10) one.delivered(chance.below(90))
      else under.push(one.detach(deadline))
    }
    if (chance.below(6) === 0) {
      const id = `d${chance.below(4)}`
      const value = chance.below(3) === 0 ? null : { is: step }
      under.push(store.documents.change([changeOf(things, id, value)], { action: 'put', object: id }))
    }
    if (chance.below(6) === 0) under.push(store.works.put(changed(works, chance, time, step)))
    if (chance.below(8) === 0) under.push(store.requests.list({ limit: 1 }))
    if (chance.below(4) === 0) await under.at(-1)
    else if (chance.below(3) === 0) await setImmediate()
  }
  for (const one of open) under.push(one.detach(deadline))
  await Promise.all(under)
}

/** New work, or a change of a piece that is there. */
function changed(works: Work[], chance: Chance, time: number, step: number): Work {
  const place = chance.below(works.length + 2)
  const known = works[place]
  if (!known) {
    const begun = work(`w${step} of ${randomUUIDv7()}`, { created: time, tenant: `t${chance.below(2)}` })
    works.push(begun)
    return begun
  }
  const over = chance.below(2) === 0
  const next: Work = over
    ? { ...known, status: 'succeeded', progress: 100, ended: time, expires: time + hour, bytes: 1000 + step }
    : { ...known, status: 'in_progress', progress: step % 100 }
  if (over) works.splice(place, 1)
  else works[place] = next
  return next
}
