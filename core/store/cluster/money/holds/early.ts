// A hold that was admitted from slices, until the database has it: who waits for that, and what is done behind it.
import type { Hold } from '../../../embedded/balance/hold.ts'
import { smaller } from '../../../embedded/balance/cell.ts'
import { unavailable } from '../../../embedded/writer/unavailable.ts'
import type { Gathering } from '../sending/gathering.ts'
import type { Admission, End, Refusal } from '../sending/operations.ts'
import type { Plan } from '../balances/plan.ts'
import type { Slices, Taken } from '../slices/slices.ts'

/** A hold that the database is only told of. */
export class EarlyHold implements Admission {
  readonly hold: Hold
  readonly plan: Plan
  readonly sure = true
  rosterPlace: number | undefined = undefined
  taken: Taken
  end: End | undefined
  /** Whether the database has its end, too. */
  ended = false
  /** Whether the database will never have it. */
  lost = false
  readonly #gathering: Gathering
  readonly #slices: Slices
  /** What slices have of it that leaves with a later batch. */
  #ahead: bigint
  readonly #over: (early: EarlyHold, lost: boolean) => void
  #then: (() => void)[] = []
  #waiting: ((error: Error) => void)[] = []
  /** Whether those of its gathering were told that it is not written. */
  #told = false

  /** `slices`: where it was taken from. `over` is called when the database has it, or never will (`lost`). */
  constructor(
    hold: Hold,
    plan: Plan,
    taken: Taken,
    gathering: Gathering,
    slices: Slices,
    over: (early: EarlyHold, lost: boolean) => void
  ) {
    this.hold = hold
    this.plan = plan
    this.taken = taken
    this.#gathering = gathering
    this.#slices = slices
    this.#ahead = hold.amount
    this.#over = over
    gathering.add()
    slices.ahead(taken, hold.amount)
  }

  /** It ends. What it is not charged nobody has to wait for any more. */
  endWith(end: End): void {
    this.end = end
    if (this.#ahead > 0n) this.#count(smaller(end.charged, this.#ahead))
  }

  leaves(): void {
    this.#count(0n)
  }

  #count(ahead: bigint): void {
    this.#slices.ahead(this.taken, ahead - this.#ahead)
    this.#ahead = ahead
  }

  /** Does something when the database has it, or never will. `failed` is called when that takes long. */
  then(run: () => void, failed: (error: Error) => void): void {
    this.#then.push(run)
    this.#waiting.push(failed)
  }

  admitted(ended: boolean): void {
    this.ended = ended
    this.#gathering.written()
    this.#end(false)
  }

  refused({ taken }: Refusal): void {
    this.failed(new Error(taken ? 'its id has a reservation already' : 'it cannot be accounted for'), true)
  }

  failed(error: Error, dropped: boolean): void {
    // It is called again and again while the database is silent.
    if (this.#told && !dropped && this.#waiting.length === 0) return
    this.#told = true
    const reason = unavailable(`${this.hold.requestId}: ${error.message}`)
    this.#gathering.failed(reason)
    if (dropped) this.#end(true)
    else for (const failed of this.#waiting.splice(0)) failed(reason)
  }

  #end(lost: boolean): void {
    this.lost = lost
    this.#over(this, lost)
    for (const run of this.#then.splice(0)) run()
  }
}
