// Whose turn it is to go on without a client: so many at a time, and one tenant after the other.
import { OwnAllowance } from '../../allowance.ts'
import type { Allowance } from '../../allowance.ts'
import type { GatewayError } from '../../errors.ts'
import type { Work } from '../../store/works.ts'

/** How often those that wait look for a place that another thread has left, in milliseconds. */
const looks = 100

/** Who has a turn: an exchange that does work. */
interface Runner {
  readonly work: Pick<Work, 'tenant'>
}

/**
 * Lets so many go on at a time. Of those that wait one tenant after the other has a turn, and each one's own in the
 * order in which they came. Whoever has entered is counted from then on, whether it is ready to go on or not.
 */
export class RunPool {
  readonly #most: () => number
  /** How many go on, and how many wait, in all threads. */
  readonly #going: Allowance
  readonly #waiting: Allowance
  #looking: NodeJS.Timeout | undefined
  /** By tenant, the one whose turn is next first. */
  readonly #queues = new Map<string, Map<Runner, PromiseWithResolvers<void>>>()
  readonly #running = new Set<Runner>()

  /** `most`: how many may go on at a time, as it is now. */
  constructor(most: () => number, going: Allowance = new OwnAllowance(), waiting: Allowance = new OwnAllowance()) {
    this.#most = most
    this.#going = going
    this.#waiting = waiting
  }

  /** Whether a runner that enters now goes on at once. */
  get free(): boolean {
    return this.#going.all < this.#most()
  }

  /** How many wait here, and in all threads. */
  get waiting(): number {
    return this.#waiting.used
  }

  get waitingOfAll(): number {
    return this.#waiting.all
  }

  /** How many of a tenant's wait. */
  waitingOf(tenant: string): number {
    return this.#queues.get(tenant)?.size ?? 0
  }

  /**
   * Resolves when it is its turn, and rejects when it is withdrawn before; {@link RunPool.leave} gives the place back.
   */
  enter(run: Runner): Promise<void> {
    this.#serve()
    if (this.#going.take(1, this.#most())) {
      this.#running.add(run)
      return Promise.resolve()
    }
    const turn = Promise.withResolvers<void>()
    const { tenant } = run.work
    const queue = this.#queues.get(tenant)
    if (queue) queue.set(run, turn)
    else this.#queues.set(tenant, new Map([[run, turn]]))
    this.#waiting.take(1)
    if (this.#going.isShared) this.#looking ??= setInterval(() => this.#serve(), looks).unref()
    return turn.promise
  }

  /** Takes a runner out of the queue and rejects its turn. Does nothing when it does not wait. */
  withdraw(run: Runner, error: GatewayError): void {
    this.#take(run)?.reject(error)
  }

  /** Ends the turn of a runner, or its wait, and gives free places to those that wait. */
  leave(run: Runner): void {
    this.#take(run)
    if (this.#running.delete(run)) this.#going.give(1)
    this.#serve()
  }

  /** Gives free places to those that wait. */
  #serve(): void {
    for (
      let next = this.#queues.entries().next().value;
      next && this.#going.take(1, this.#most());
      next = this.#queues.entries().next().value
    ) {
      const [tenant, queue] = next
      const heir = queue.keys().next().value!
      const turn = this.#take(heir)!
      // The others' turns come first now.
      if (this.#queues.delete(tenant)) this.#queues.set(tenant, queue)
      this.#running.add(heir)
      turn.resolve()
    }
  }

  /** Out of its queue: its turn, if it waited. */
  #take(run: Runner): PromiseWithResolvers<void> | undefined {
    const { tenant } = run.work
    const queue = this.#queues.get(tenant)
    const turn = queue?.get(run)
    if (!queue || !turn) return undefined
    queue.delete(run)
    this.#waiting.give(1)
    if (queue.size === 0) this.#queues.delete(tenant)
    if (this.#queues.size === 0) {
      clearInterval(this.#looking)
      this.#looking = undefined
    }
    return turn
  }
}
