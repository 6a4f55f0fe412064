// The queue of tasks for the threads: all tenants get equal shares, and small tasks come before large ones.

/** A task that waits. */
export interface Waiter {
  readonly tenant: string
  /** In bytes, at least one. */
  readonly size: number
}

interface Queue<T> {
  /** The bytes of this tenant's tasks that were served; raised to the share of others after a time without tasks. */
  served: number
  bytes: number
  /**
   * `due`: the tenant's `served` at the arrival of the task, plus the size of the task. The smallest goes first, so
   * smaller tasks that come later cannot delay a large one for ever.
   */
  readonly waiting: { readonly one: T; readonly due: number }[]
}

/**
 * Fair queuing by bytes. The next tenant is the one that will have been served least after its next task. Within a
 * tenant, the next task is the one that would have ended first if each had begun on arrival. So a small task goes
 * before large ones, but a waiting task is overtaken by no more bytes per tenant than it has itself.
 */
export class Line<T extends Waiter> {
  /** The bytes of all waiting tasks. */
  bytes = 0
  readonly #queues = new Map<string, Queue<T>>()
  /** What the tenant that had the last turn had been served before that turn. */
  #clock = 0

  /** The bytes of a tenant's waiting tasks. */
  bytesOf(tenant: string): number {
    return this.#queues.get(tenant)?.bytes ?? 0
  }

  push(one: T): void {
    const { tenant, size } = one
    let queue = this.#queues.get(tenant)
    if (!queue) this.#queues.set(tenant, (queue = { served: this.#clock, bytes: 0, waiting: [] }))
    // A tenant saves no share for later while it has no tasks.
    if (queue.waiting.length === 0) queue.served = Math.max(queue.served, this.#clock)
    queue.waiting.push({ one, due: queue.served + size })
    queue.bytes += size
    this.bytes += size
  }

  /** Removes a task. False when it did not wait. */
  remove(one: T): boolean {
    const queue = this.#queues.get(one.tenant)
    const at = queue?.waiting.findIndex((other) => other.one === one) ?? -1
    if (at === -1) return false
    this.#take(queue!, at)
    return true
  }

  /** Takes the next task out of the queue, among those of at most `most` bytes. */
  next(most = Infinity): T | undefined {
    let best: { queue: Queue<T>; at: number; end: number } | undefined
    for (const [tenant, queue] of this.#queues) {
      if (queue.waiting.length === 0 && queue.served <= this.#clock) this.#queues.delete(tenant)
      const at = firstDue(queue, most)
      if (at === -1) continue
      const end = queue.served + queue.waiting[at]!.one.size
      if (!best || end < best.end) best = { queue, at, end }
    }
    if (!best) return undefined
    const { queue, at, end } = best
    this.#clock = Math.max(this.#clock, queue.served)
    queue.served = end
    return this.#take(queue, at)
  }

  #take(queue: Queue<T>, at: number): T {
    const { one } = queue.waiting[at]!
    queue.waiting.splice(at, 1)
    queue.bytes -= one.size
    this.bytes -= one.size
    // When nothing waits, the shares so far do not matter any more.
    if (this.bytes === 0) {
      this.#queues.clear()
      this.#clock = 0
    }
    return one
  }
}

/** The index of the task that is due first, among those of at most `most` bytes; -1 when there is none. */
function firstDue<T extends Waiter>({ waiting }: Queue<T>, most: number): number {
  let best = -1
  for (let at = 0; at < waiting.length; at++) {
    const { one, due } = waiting[at]!
    if (one.size <= most && (best === -1 || due < waiting[best]!.due)) best = at
  }
  return best
}
