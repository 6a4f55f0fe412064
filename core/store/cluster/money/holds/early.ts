// A hold that was admitted from slices, until the database has it: who waits for that, and what is done behind it.
import type { Hold } from '../../../embedded/balance/hold.ts'
import { unavailable } from '../../../embedded/writer/unavailable.ts'
import type { Gathering } from '../sending/gathering.ts'
import type { Admission, End, Refusal } from '../sending/operations.ts'
import type { Plan } from '../balances/plan.ts'
import type { Taken } from '../slices/slices.ts'

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
  readonly #over: (early: EarlyHold, lost: boolean) => void
  #then: (() => void)[] = []
  #waiting: ((error: Error) => void)[] = []
  /** Whether those of its gathering were told that it is not written. */
  #told = false

  /** `over` is called when the database has it, or never will (`lost`). */
  constructor(
    hold: Hold,
    plan: Plan,
    taken: Taken,
    gathering: Gathering,
    over: (early: EarlyHold, lost: boolean) => void
  ) {
    this.hold = hold
    this.plan = plan
    this.taken = taken
    this.#gathering = gathering
    this.#over = over
    gathering.add()
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
