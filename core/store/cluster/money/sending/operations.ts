// What the ledger of a node asks the database for: admissions, progress of holds, and their ends.
import type { Price } from '../../../../money/price.ts'
import type { Scope } from '../../../../catalogue/caller.ts'
import type { Hold } from '../../../embedded/balance/hold.ts'
import type { Value } from '../../../embedded/files/sqlite.ts'
import type { Place, Plan } from '../balances/plan.ts'
import type { Change } from '../slices/slice.ts'
import type { Taken } from '../slices/slices.ts'
import type { AskedHold } from './asked.ts'
import { Gathering } from './gathering.ts'

/**
 * Why a hold was refused: a budget cannot carry it (`at` counts its plan's limits from 0), no balance can, or its name
 * is `taken` by an open hold.
 */
export interface Refusal {
  readonly taken: boolean
  /** Not refused yet: others have what it lacks in slices, and give it back, or are gone and will be taken over. */
  readonly lacks: 'slices of others' | 'slices of nodes that are gone' | undefined
  readonly at: number | undefined
  /** Posted and used of the budgets of the plan, as the batch left them. */
  readonly sums: readonly { readonly posted: bigint; readonly used: bigint }[]
}

/** A hold that is asked for. */
export interface Admission {
  readonly hold: Hold
  readonly plan: Plan
  /** What was taken for it from slices of this node, by the limits of the plan; nothing when the slices are over. */
  taken: Taken
  /** Whether it is admitted already, by slices: the database only has to write it. */
  readonly sure: boolean
  /**
   * Its end, where it has ended before it leaves: both are written at once then, and the database never has it open.
   * Undefined again when they have to be written one after the other.
   */
  end?: End | undefined
  /** Of one that is to be decided on: whether slices carry it by now, so that it waits no longer and is admitted. */
  again?(): boolean
  /** Of one that is admitted already: it leaves with a batch. */
  leaves?(): void
  /** The database has it; with `ended` its end as well, and it is not open there. */
  admitted(ended: boolean): void
  refused(refusal: Refusal): void
  /**
   * The database cannot decide at present. `dropped`: it will not be asked any more; else what it says later no longer
   * matters to the caller. May be called again.
   */
  failed(error: Error, dropped: boolean): void
}

/** A hold that the database had, and has no more: an earlier state of it has come back. */
export interface Restored extends AskedHold {
  /** The end that it was written with. */
  readonly end?: End | undefined
}

/** What a hold is charged in its end, whether that is in time or others have ended it. */
export interface Charge {
  readonly requestId: string
  readonly part: string
  /** The balances that it counts in. */
  readonly places: readonly Place[]
  readonly charged: bigint
  /** For the journal: flat, in the columns of an entry. */
  readonly entries: readonly Value[]
  /** The scopes whose thresholds it may reach, and the time of its windows. */
  readonly scopes: () => readonly Scope[]
  readonly time: number
}

/** The end of a hold. */
export interface End extends Charge {
  readonly held: bigint
  /**
   * Of what is made of an end that came too late: that end. Its hold has ended by estimate, which is corrected, or is
   * not in the database.
   */
  readonly corrects?: Charge
  /** Whether it is in the node's own log, or on its way there. */
  logged?: boolean
  /** It is durable, in the database or in this node's own log. Called at least once. */
  done(): void
  /** Nobody waits for it any longer; it is written all the same. */
  failed(error: Error): void
}

/** Who waits for progress to be durable. */
export interface Waiter {
  done(): void
  failed(error: Error): void
}

/** Progress of a hold: an upstream was asked, or it is to outlive its process. What it says is read when it is sent. */
export class Touch {
  readonly hold: Hold
  /** Until when a hold is kept that is detached; undefined for mere progress. */
  until: number | undefined
  /** Whether all of it is in the node's own log, or on its way there. */
  logged = false
  #waiters: Waiter[] = []
  /** Those whose part of it is on its way to the log. */
  readonly #leaving = new Set<Waiter>()

  constructor(hold: Hold) {
    this.hold = hold
  }

  /** Whether somebody waits for what is not in the log. */
  get urgent(): boolean {
    return this.#waiters.length > 0
  }

  /** More has happened. */
  add(until: number | undefined, waiter: Waiter | undefined): void {
    this.until = until ?? this.until
    this.logged = false
    if (waiter) this.#waiters.push(waiter)
  }

  /** All of it until now goes to the log. Returns who is to be told when it is there. */
  leave(): Waiter {
    const some = this.#waiters
    this.#waiters = []
    for (const one of some) this.#leaving.add(one)
    const tell = (run: (waiter: Waiter) => void): void => {
      for (const one of some) if (this.#leaving.delete(one)) run(one)
    }
    return { done: () => tell(({ done }) => done()), failed: (error) => tell(({ failed }) => failed(error)) }
  }

  /** All of it is in the database. */
  done(): void {
    for (const { done } of this.#all()) done()
  }

  failed(error: Error): void {
    for (const { failed } of this.#all()) failed(error)
  }

  #all(): Waiter[] {
    const all = [...this.#leaving, ...this.#waiters]
    this.#leaving.clear()
    this.#waiters = []
    return all
  }
}

/** The part of the holds that are admitted already which one batch takes at least is one of so many. */
const share = 32

/** What waits to be sent, in the order in which it came. */
export class Queue {
  readonly prices: Price[] = []
  readonly ends: End[] = []
  /** One for each hold: an outage may last, and progress goes on. */
  touches = new Map<Hold, Touch>()
  /** Those that the database decides on: somebody waits for each. */
  readonly decisions: Admission[] = []
  /** Those that it only has to be told of; of what was taken out, all of them. */
  readonly admissions: Admission[] = []
  readonly restored: Restored[] = []
  /** What is told about slices. It is made when a batch is. */
  readonly changes: Change[] = []
  #gathering: Gathering | undefined

  /** For a hold that slices have admitted: those that leave with the next batch, but not those that were given up. */
  get gathering(): Gathering {
    if (!this.#gathering || this.#gathering.broken) this.#gathering = new Gathering(performance.now())
    return this.#gathering
  }

  get size(): number {
    const { prices, ends, touches, decisions, admissions, restored, changes } = this
    const holds = decisions.length + admissions.length + restored.length
    return prices.length + ends.length + touches.size + holds + changes.length
  }

  /** Everything of some. */
  static of(some: readonly Queue[]): Queue {
    const all = new Queue()
    for (const { prices, ends, touches, admissions, restored, changes } of some) {
      all.prices.push(...prices)
      all.ends.push(...ends)
      all.admissions.push(...admissions)
      all.restored.push(...restored)
      all.changes.push(...changes)
      for (const [hold, touch] of touches) all.join(hold, touch)
    }
    return all
  }

  /** The ends that are written together with their holds. */
  get joined(): readonly End[] {
    return [...this.admissions, ...this.restored].flatMap(({ end }) => end ?? [])
  }

  /** Has holds that are admitted written apart from their ends. Returns whether there were such. */
  part(): boolean {
    const joined = this.admissions.filter(({ end }) => end)
    for (const admission of joined) admission.end = undefined
    return joined.length > 0
  }

  /** Adds progress of a hold that was noted elsewhere. */
  join(hold: Hold, touch: Touch): void {
    const known = this.touches.get(hold)
    if (known) known.add(touch.until, touch.leave())
    else this.touches.set(hold, touch)
  }

  /** Slices have got something: those that they carry by now wait no longer. */
  retry(): void {
    const waiting = this.decisions.splice(0)
    for (const one of waiting) if (!one.again?.()) this.decisions.push(one)
  }

  /** Whether some of it is in the node's own log, which must stay until it is in the database. */
  get logged(): boolean {
    return (
      [...this.ends, ...this.joined].some(({ logged }) => logged) ||
      [...this.touches.values()].some(({ logged }) => logged)
    )
  }

  /** Notes progress of a hold. */
  touch(hold: Hold, until: number | undefined, waiter: Waiter | undefined): void {
    let touch = this.touches.get(hold)
    if (!touch) this.touches.set(hold, (touch = new Touch(hold)))
    touch.add(until, waiter)
  }

  /**
   * Takes out as much of each kind as one batch may have. All prices go before the holds that were made at them. Holds
   * that are admitted already fill it up to `usual` ones, or are a part of what waits, so that decisions do not wait
   * for long batches, here or at other nodes.
   */
  take(most: number, usual = most): Queue {
    const taken = new Queue()
    taken.prices.push(...this.prices.splice(0, most))
    if (this.prices.length > 0) return taken
    taken.ends.push(...this.ends.splice(0, most))
    taken.restored.push(...this.restored.splice(0, most))
    // Each batch has a map of its own: the tables of one that loses its members again and again keep them for long.
    const touches = [...this.touches]
    taken.touches = new Map(touches.splice(0, most))
    this.touches = new Map(touches)
    taken.admissions.push(...this.decisions.splice(0, most))
    const room = Math.max(usual - taken.admissions.length, Math.ceil(this.admissions.length / share))
    const told = this.admissions.splice(0, Math.min(room, most))
    for (const admission of told) admission.leaves?.()
    taken.admissions.push(...told)
    this.#gathering?.close()
    this.#gathering = undefined
    return taken
  }

  /** Everything in two halves, of which the first has what is to be sent first. */
  halves(): [Queue, Queue] {
    const halves: [Queue, Queue] = [new Queue(), new Queue()]
    const middle = Math.ceil(this.size / 2)
    let at = 0
    const next = (): Queue => halves[at++ < middle ? 0 : 1]
    for (const price of this.prices) next().prices.push(price)
    for (const end of this.ends) next().ends.push(end)
    for (const [hold, touch] of this.touches) next().touches.set(hold, touch)
    for (const change of this.changes) next().changes.push(change)
    for (const admission of this.admissions) next().admissions.push(admission)
    for (const one of this.restored) next().restored.push(one)
    return halves
  }
}

/**
 * Refuses what a process was sending, and what waited for that, as a later start of its node has begun. That start has
 * ended what the database had of it, which may be all that was sent: such ends come too late, and are kept.
 */
export function abandon(sending: readonly Queue[], waiting: Queue, error: Error, tooLate: (end: End) => void): void {
  const sent = new Set(sending.flatMap(({ admissions }) => admissions.filter(({ sure }) => sure)))
  const { admissions, ends, touches, restored } = Queue.of([...sending, waiting.take(Infinity)])
  for (const one of [...ends, ...touches.values()]) one.failed(error)
  for (const end of [...ends, ...restored.flatMap((one) => one.end ?? [])]) tooLate(end)
  for (const admission of admissions) {
    admission.failed(error, !sent.has(admission))
    if (sent.has(admission)) admission.admitted(false)
  }
}
