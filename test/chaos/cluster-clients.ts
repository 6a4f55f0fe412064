// Clients of many kinds, who use all gateways of a fleet at once, and keep what they saw.
import { setTimeout as sleep } from 'node:timers/promises'
import { beginResponse, beginTask, call, lookAt, pictures, responses, talk, videos } from '../money/lasting.ts'
import type { Known, Talk, Task } from '../money/lasting.ts'
import type { Fault, Plan } from '../money/planned.ts'
import { ask } from '../money/rig.ts'
import type { Asking, Seen } from '../money/rig.ts'

/** What a client saw of a chat, and when, by `performance.now()`. */
export interface Chat extends Seen {
  readonly index: number
  readonly from: number
  readonly to: number
  /** It was sent several times with one key of idempotency. */
  readonly repeated: boolean
}

/** Steps of `max_tokens`: what a hold comes to tells of which request it is, whatever became of its client. */
const step = 100
/** Nano-dollars of so many tokens of output. */
const stepCost = 1_000_000n

/** The index of the chat that a charge belongs to, by what was held for it: requests are shorter than a step. */
export function indexOf(reserved: bigint): number {
  return Number(reserved / stepCost)
}

const faults: readonly Fault[] = ['refuse', 'break', 'reset', 'cut', 'end-early']

/** The clients. They begin at once. */
export class Clients {
  readonly chats: Chat[] = []
  readonly known: Known[] = []
  readonly tasks: Task[] = []
  readonly talks: Talk[] = []
  /** Replies by status and code. */
  readonly codes = new Map<string, number>()
  readonly #url: () => string
  readonly #random: (below: number) => number
  readonly #lanes: Promise<void>
  #next = 1
  #over = false

  /** `url`: of a gateway, chosen anew for each request. `width`: how many clients there are of each kind. */
  constructor(url: () => string, random: (below: number) => number, width: number) {
    this.#url = url
    this.#random = random
    const kinds = [
      ...Array.from({ length: 4 }, () => () => this.#chat()),
      () => this.#repeat(),
      () => this.#respond(),
      () => this.#order(),
      () => talk(this.#url(), this.talks, () => this.#over, random)
    ]
    const lane = async (kind: () => Promise<void>): Promise<void> => {
      while (!this.#over) {
        await kind()
        await sleep(20 + random(80))
      }
    }
    this.#lanes = Promise.all(Array.from({ length: width }, () => kinds.map(lane)).flat()).then(() => {})
  }

  /** How many chats were seen to their end. */
  get ended(): number {
    return this.chats.filter(({ ended }) => ended).length
  }

  /** Begins nothing more, and resolves when all is over. */
  async end(): Promise<void> {
    this.#over = true
    await this.#lanes
  }

  /** Asks for one chat more, in a way of the caller's. */
  async chat(more: Asking): Promise<void> {
    const [index, plan, asking] = this.#planned()
    await this.#ask(index, plan, { ...asking, ...more })
  }

  #planned(): [index: number, plan: Plan, asking: Asking] {
    const random = this.#random
    const index = this.#next++
    const plan: Plan = {
      id: `c${100_000 + index}`,
      units: { input: 1000 + random(1000), output: 100 + random(800) },
      words: 2 + random(30),
      gap: random(6)
    }
    return [index, plan, { stream: random(3) > 0, body: { max_tokens: index * step } }]
  }

  async #ask(index: number, plan: Plan, asking: Asking, repeated = false): Promise<Seen> {
    const from = performance.now()
    const seen = await ask(this.#url(), plan, asking)
    this.chats.push({ ...seen, index, from, to: performance.now(), repeated })
    const name = `${seen.status} ${seen.code ?? ''}`.trim()
    this.codes.set(name, (this.codes.get(name) ?? 0) + 1)
    // Where connections are refused at once, a client would do nothing else.
    if (seen.status === 0) await sleep(200)
    return seen
  }

  async #chat(): Promise<void> {
    const [index, plan, asking] = this.#planned()
    if (this.#random(20) === 0) plan.fault = faults[this.#random(faults.length)]!
    await this.#ask(index, plan, this.#random(10) === 0 ? { ...asking, leaveAt: this.#random(2000) } : asking)
  }

  /** As a client does that hears nothing: again, by way of another gateway, with the same key. */
  async #repeat(): Promise<void> {
    const [index, plan, asking] = this.#planned()
    const again = { ...asking, headers: { 'idempotency-key': plan.id } }
    const first = this.#ask(index, plan, again, true)
    if (this.#random(2) === 0) await sleep(this.#random(50))
    else await first
    await Promise.all([first, this.#ask(index, plan, again, true)])
    await this.#ask(index, plan, again, true)
  }

  async #respond(): Promise<void> {
    const one = await beginResponse(this.#url(), this.#random)
    if (!one) return
    this.known.push(one)
    if (this.#random(5) === 0) {
      one.cancelled = true
      await call(`${this.#url()}${responses}/${one.id}/cancel`, 'POST')
    } else if (this.#random(2) === 0) await call(`${this.#url()}${responses}/${one.id}`, 'GET')
  }

  async #order(): Promise<void> {
    const random = this.#random
    const path = random(4) === 0 ? pictures : videos
    const times = [random(50), random(500)] as const
    const task = await beginTask(this.#url(), path, random(4) === 0 ? 'fails' : 'succeeds', times, random)
    if (!task) return
    this.tasks.push(task)
    if (random(2) === 0) await lookAt(this.#url(), task)
  }
}
