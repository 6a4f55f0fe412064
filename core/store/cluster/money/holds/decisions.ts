// Has the database decide on holds that slices do not carry, and again where the answer is not the last word.
import { Hold } from '../../../embedded/balance/hold.ts'
import type { HoldKeeper } from '../../../embedded/balance/hold.ts'
import { Purse } from '../../../embedded/balance/purse.ts'
import type { Limited } from '../../../embedded/balance/purse.ts'
import { Cell, mostHeld } from '../../../embedded/balance/cell.ts'
import type { Entered, HoldTable } from '../../../embedded/book/hold-table.ts'
import { unavailable } from '../../../embedded/writer/unavailable.ts'
import type { Reservation, ReserveRequest } from '../../../ledger.ts'
import { DatabaseFault } from '../../database/fault.ts'
import type { Mirror } from '../balances/mirror.ts'
import type { Admission, Refusal } from '../sending/operations.ts'
import type { Plan } from '../balances/plan.ts'
import type { Taken } from '../slices/slices.ts'
import type { Views } from '../balances/views.ts'

/** How often a request is asked for again that a rolling budget refused and had room for a moment later. */
const mostTries = 3
/** Milliseconds after which slices of others are asked for again, which need as long to come back. */
const [firstPause, longestPause] = [5, 100]

const durable = Promise.resolve()

/** A hold that is asked for. */
export interface Question extends Entered {
  readonly request: ReserveRequest
  readonly plan: Plan
}

/** What it needs of its book. */
export interface DecisionParts {
  readonly mirror: Mirror
  readonly views: Views
  /** How long a request waits for the slices of others, in milliseconds. */
  readonly patience: number
  readonly keeper: HoldKeeper
  /** What was asked for and is not answered. */
  readonly asked: HoldTable<Question>
  send(admission: Admission): void
  /** The database has made a hold. */
  made(question: Question, hold: Hold): void
  /** Takes what it can from the slices of this node. */
  take(question: Question): Taken
  /** Takes what is lacking, where slices carry all of it by now. */
  takeAgain(question: Question, taken: Taken): Taken | undefined
  putBack(taken: Taken, amount: bigint): void
  /** Holds it in memory, if all of it was taken. */
  admit(question: Question, taken: Taken): Hold | undefined
  /** @throws GatewayError `billing_unavailable` while the database cannot be asked */
  checkOpen(): void
}

/** What the database decides. */
export class Decisions {
  readonly #parts: DecisionParts
  /** Those that wait for slices of others, and what has them ask again. */
  readonly #waiting = new Map<() => void, Plan>()

  constructor(parts: DecisionParts) {
    this.#parts = parts
  }

  /**
   * Resolves with the hold. `taken`: what slices of this node carry of it.
   * @throws GatewayError `quota_<scope>_exceeded`, or `billing_unavailable`
   */
  async decide(question: Question, taken: Taken): Promise<Reservation> {
    const { patience, asked } = this.#parts
    const began = performance.now()
    let own = taken
    let tries = 0
    let pause = firstPause
    for (;;) {
      const made = await this.#ask(question, own)
      if (made instanceof Hold) return made
      try {
        if (made === undefined) {
          if (++tries === mostTries) throw unavailable('the budgets change too fast to say which one is used up')
        } else {
          if (made === 'slices of nodes that are gone' || performance.now() + pause > began + patience)
            throw unavailable(`what is left of a budget is in ${made}, which have not come back yet`)
          await this.#return(question.plan, pause * (0.75 + Math.random() / 2))
          pause = Math.min(pause * 2, longestPause)
        }
        this.#parts.checkOpen()
      } catch (error) {
        asked.delete(question)
        throw error
      }
      own = this.#parts.take(question)
      const early = this.#parts.admit(question, own)
      if (early) return early
    }
  }

  /** Others have given back slices of a budget. */
  returned(key: string): void {
    for (const [ask, { limits }] of this.#waiting) if (limits.some((limit) => limit.key === key)) ask()
  }

  /** Resolves when slices came back that a plan may lack, and after so many milliseconds in any case. */
  async #return(plan: Plan, within: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, within)
    this.#waiting.set(resolve, plan)
    await promise
    clearTimeout(timer)
    this.#waiting.delete(resolve)
  }

  /** Asks once. Undefined when a budget refused that has room by now. */
  #ask(question: Question, taken: Taken): Promise<Hold | Refusal['lacks']> {
    const { request, plan } = question
    const { asked, mirror, putBack } = this.#parts
    const { promise, resolve, reject } = Promise.withResolvers<Hold | Refusal['lacks']>()
    const cells: Cell[] = []
    const purse = new Purse(plan.texts, plan, cells, [], [])
    const hold = new Hold(request, purse, { durable }, this.#parts.keeper)
    let failed = false
    const over = (error: unknown): void => {
      asked.delete(question)
      reject(error as Error)
    }
    const admission: Admission = {
      hold,
      plan,
      taken,
      sure: false,
      again: () => {
        const own = this.#parts.takeAgain(question, admission.taken)
        if (!own) return false
        admission.taken = own
        const early = this.#parts.admit(question, own)
        if (early) resolve(early)
        return early !== undefined
      },
      admitted: () => {
        asked.delete(question)
        this.#parts.made(question, hold)
        for (const { key } of plan.places) {
          const known = mirror.get(key)
          if (known) cells.push(known.cell)
        }
        // Its caller was told that it cannot be accounted for.
        if (failed) hold.void().catch(() => {})
        else resolve(hold)
      },
      refused: (refusal) => {
        putBack(admission.taken, request.amount)
        if (failed) asked.delete(question)
        else if (refusal.lacks) resolve(refusal.lacks)
        else this.#check(plan, refusal, request).then(() => resolve(undefined), over)
      },
      failed: (error, dropped) => {
        if (dropped) {
          asked.delete(question)
          putBack(admission.taken, request.amount)
        }
        failed = true
        reject(refusedOr(error, request))
      }
    }
    this.#parts.send(admission)
    return promise
  }

  /** Throws what says which budget cannot carry an amount, unless it can by now. */
  async #check(plan: Plan, refusal: Refusal, { requestId, amount }: ReserveRequest): Promise<void> {
    if (refusal.taken) throw reservedAlready(requestId)
    const purse = purseOf(plan, refusal) ?? (await this.#parts.views.purse(plan))
    purse.check(amount)
  }
}

export function reservedAlready(requestId: string): Error {
  return new Error(`${requestId} has a reservation already: it needs another id or part`)
}

/** Why a request cannot be held: the database cannot say at present, or refuses this very request. */
function refusedOr(error: Error, { requestId }: ReserveRequest): Error {
  return error instanceof DatabaseFault && error.ofContent
    ? new Error(`${requestId} cannot be held: ${error.message}`)
    : unavailable(error.message)
}

/**
 * The balances as a batch left them that refused a hold, also with what others have not written. Undefined when a
 * rolling budget refused: when it has enough again its hours say, which must be read.
 */
function purseOf(plan: Plan, { at, sums }: Refusal): Purse | undefined {
  if (at !== undefined && 'to' in plan.limits[at]!.of) return undefined
  const budgets = plan.limits.flatMap(({ scope, budget, of }, i): Limited[] => {
    if ('to' in of) return []
    const { posted, used } = sums[i]!
    return [{ scope, budget, balance: Cell.of(of.scope, of.window, undefined, posted, used - posted) }]
  })
  // Where no budget refused, a balance is as full as one may be.
  const full = at === undefined ? [Cell.of('', '', undefined, mostHeld, 0n)] : []
  return new Purse(plan.texts, plan, full, budgets, [])
}
