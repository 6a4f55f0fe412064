// Who is next of those that wait for a thread: all tenants get as much as each other, and small ones come before large.

/** What waits. */
export interface Waiter {
  readonly tenant: string
  /** Bytes, at least one. */
  readonly size: number
}

interface Queue<T> {
  /** Bytes of the tenant's that have had their turn, or as much as others have had while it had nothing to ask. */
  served: number
  bytes: number
  /** With the count of bytes at which it is its turn, however many smaller ones came later. */
  readonly waiting: { readonly one: T; readonly due: number }[]
}

/**
 * Fair queuing by bytes: of all tenants the one is next that will have had least with what it asks for, and of its own
 * the one that would have ended first if all had begun when they came. So a small one goes before large ones, but
 * whoever waits is passed by no more than as many bytes as it has itself, for each tenant.
 */
export class Line<T extends Waiter> {
  /** Of all that wait. */
  bytes = 0
  readonly #queues = new Map<string, Queue<T>>()
  /** As much as whoever had the last turn had been served before. */
  #clock = 0

  /** Bytes of a tenant's that wait. */
  bytesOf(tenant: string): number {
    return this.#queues.get(tenant)?.bytes ?? 0
  }

  push(one: T): void {
    const { tenant, size } = one
    let queue = this.#queues.get(tenant)
    if (!queue) this.#queues.set(tenant, (queue = { served: this.#clock, bytes: 0, waiting: [] }))
    // Whoever had nothing to ask has saved nothing for later.
    if (queue.waiting.length === 0) queue.served = Math.max(queue.served, this.#clock)
    queue.waiting.push({ one, due: queue.served + size })
    queue.bytes += size
    this.bytes += size
  }

  /** It waits no more. False: it did not. */
  remove(one: T): boolean {
    const queue = this.#queues.get(one.tenant)
    const at = queue?.waiting.findIndex((other) => other.one === one) ?? -1
    if (at === -1) return false
    this.#take(queue!, at)
    return true
  }

  /** Takes the next one out of the line, of those that have at most so many bytes. */
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
    // While nobody waits, nobody takes anything from anybody: what was had until then is forgotten.
    if (this.bytes === 0) {
      this.#queues.clear()
      this.#clock = 0
    }
    return one
  }
}

/** The place of the one that is due first, of those that are not larger; -1 when there is none. */
function firstDue<T extends Waiter>({ waiting }: Queue<T>, most: number): number {
  let best = -1
  for (let at = 0; at < waiting.length; at++) {
    const { one, due } = waiting[at]!
    if (one.size <= most && (best === -1 || due < waiting[best]!.due)) best = at
  }
  return best
}
