// Hears of others that wait for slices of this node, or have given theirs back, and gives back those that nobody uses.
import { setTimeout as sleep } from 'node:timers/promises'
import { numbersOf } from '../../database/listener.ts'
import type { Listener } from '../../database/listener.ts'
import type { Slices } from './slices.ts'

/** How often slices are looked after that nobody uses, in milliseconds. */
const every = 500
/** How long closing waits for slices to be given back, in milliseconds. */
const farewell = 1000

/** What it needs of its node. */
export interface RecallParts {
  readonly slices: Slices
  /** Tells the database what there is to tell; `renew` does so without anything, and hears whether others wait. */
  readonly sender: { wake(hurried?: boolean): void; renew(): void }
  /** Others have given back slices of a balance that somebody waits for. */
  returned(key: string): void
  /** The name of a balance; undefined when it is not known. */
  keyOf(id: bigint): string | undefined
  readonly listener: Pick<Listener, 'on' | 'listening'>
  /** Whether the database answers, as far as it is known. */
  answers(): boolean
}

/** The care for the slices of a node. */
export class Recalls {
  readonly #parts: RecallParts
  readonly #timer: NodeJS.Timeout
  readonly #leave: readonly (() => void)[]

  constructor(parts: RecallParts) {
    this.#parts = parts
    this.#timer = setInterval(() => this.#look(), every).unref()
    const { listener, returned } = parts
    this.#leave = [
      listener.on('sluice_recall', (payload) => this.#recall(numbersOf(payload))),
      listener.on('sluice_return', (payload) => this.#keysOf(numbersOf(payload)).forEach(returned))
    ]
  }

  /** Gives all slices back, unless the database does not answer soon. */
  async close(): Promise<void> {
    const { slices, sender, answers } = this.#parts
    clearInterval(this.#timer)
    for (const leave of this.#leave) leave()
    slices.recallAll()
    const until = performance.now() + farewell
    for (; slices.held && answers() && performance.now() < until; await sleep(5)) sender.wake()
  }

  /** Where notifications cannot be heard, the database is asked. */
  #look(): void {
    const { slices, sender, listener } = this.#parts
    if (slices.look(performance.now())) sender.wake()
    else if (!listener.listening && slices.held) sender.renew()
  }

  /** Others wait for slices of these balances; of any, when it is not known which. */
  #recall(ids: readonly bigint[] | undefined): void {
    const { slices, sender } = this.#parts
    if (ids === undefined) sender.renew()
    for (const key of this.#keysOf(ids)) if (slices.recall(key)) sender.wake(true)
  }

  /** The balances that a notification names, as far as they are known. */
  #keysOf(ids: readonly bigint[] = []): string[] {
    return ids.flatMap((id) => this.#parts.keyOf(id) ?? [])
  }
}
