// Whose turn it is to go on without a client: so many at a time, and one tenant after the other.
import type { Awaitable } from '../../awaitable.ts'
import type { TaskSettings } from '../../catalogue/settings.ts'

/** What refuses one that would have to wait: that of all who wait, or that of its tenant, which is half of it. */
export type Crowded = 'waiting' | 'tenant'

/** A place among those that go on, or wait for that. */
export interface Turn {
  /** Resolves when its holder goes on, or has left before. */
  readonly comes: Promise<void>
  /** Gives it back, also before it has come. Again does nothing. */
  leave(): void
}

/** Decides who goes on. */
export interface Turns {
  /** How many wait, as far as it is this thread that decides. */
  readonly waiting: number
  /** Takes a place, or says why there is none. It counts from then on, whether its holder is ready to go on or not. */
  enter(tenant: string): Awaitable<Turn | Crowded>
}

/**
 * Decides for all that ask it. Of those that wait one tenant after the other has a turn, and each one's own in the
 * order in which they came.
 */
export class TurnPool implements Turns {
  readonly #bounds: () => Pick<TaskSettings, 'running' | 'waiting'>
  /** What begins those that wait, by tenant; the one whose turn is next first. */
  readonly #queues = new Map<string, Set<() => void>>()
  #going = 0
  waiting = 0

  /** `bounds`: as they are now. */
  constructor(bounds: () => Pick<TaskSettings, 'running' | 'waiting'>) {
    this.#bounds = bounds
  }

  enter(tenant: string): Turn | Crowded {
    this.#serve()
    const { running, waiting } = this.#bounds()
    if (this.#going < running) {
      this.#going++
      return { comes: Promise.resolve(), leave: once(() => this.#end()) }
    }
    const left = waiting - this.waiting
    if (left <= 0) return 'waiting'
    const queue = this.#queues.get(tenant) ?? new Set()
    // One tenant alone fills half of the places, and whoever comes then finds one.
    if (queue.size >= left) return 'tenant'
    const { promise: comes, resolve: begin } = Promise.withResolvers<void>()
    this.#queues.set(tenant, queue.add(begin))
    this.waiting++
    return {
      comes,
      leave: once(() => {
        // Nobody is left to wait, here or at the other end of a line.
        if (this.#take(tenant, begin)) begin()
        else this.#end()
      })
    }
  }

  #end(): void {
    this.#going--
    this.#serve()
  }

  /** Gives free places to those that wait. */
  #serve(): void {
    const { running } = this.#bounds()
    for (const [tenant, queue] of this.#queues) {
      if (this.#going >= running) return
      const [begin] = queue
      this.#take(tenant, begin!)
      // The others' turns come first now. A map comes to what is put at its end.
      if (this.#queues.delete(tenant)) this.#queues.set(tenant, queue)
      this.#going++
      begin!()
    }
  }

  /** Takes one out of its queue. False when it did not wait. */
  #take(tenant: string, begin: () => void): boolean {
    const queue = this.#queues.get(tenant)
    if (!queue?.delete(begin)) return false
    this.waiting--
    if (queue.size === 0) this.#queues.delete(tenant)
    return true
  }
}

function once(act: () => void): () => void {
  let done = false
  return () => {
    if (done) return
    done = true
    act()
  }
}
