// The connections of one origin: one for each running request, and those that wait for the next.
import type { Carrier, Keeper } from './connection.ts'

/** Connections that wait; what is released beyond is closed. */
const maxIdle = 4096

/**
 * Shared by channels and generations. There is no limit and no queue: a request has a connection of its own, the one that
 * was used last if any waits.
 */
export class Pool implements Keeper {
  /** Established connections. */
  open = 0
  readonly #connect: (keeper: Keeper) => Carrier
  /** The one released last is last. Closed ones stay until they are come upon. */
  readonly #idle: Carrier[] = []
  /** Released in this turn of the event loop; released before, and waiting for a turn in which nothing came. */
  #released: Carrier[] = []
  #cooling: Carrier[] = []
  /** Sockets, those that are connecting included. */
  #sockets = 0
  /** Called when the last socket is gone; undefined until {@link close}. */
  #onEmpty: (() => void) | undefined

  /** `connect` makes a carrier that begins to connect, and tells the pool of its sockets. */
  constructor(connect: (keeper: Keeper) => Carrier) {
    this.#connect = connect
  }

  /** A connection that waited, or a new one. `now`: `performance.now()`. */
  take(now: number): Carrier {
    for (let last = this.#idle.pop(); last; last = this.#idle.pop()) {
      if (last.usable(now)) return last
      last.destroy()
    }
    return this.connect()
  }

  connect(): Carrier {
    return this.#connect(this)
  }

  /** Closes what has waited too long. */
  sweep(now: number): void {
    const idle = this.#idle
    let kept = 0
    for (const connection of idle) {
      if (connection.usable(now)) idle[kept++] = connection
      else connection.destroy()
    }
    idle.length = kept
  }

  /** Ends what waits, and resolves when the last answer has ended. Connections are not kept any more. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#onEmpty = resolve
      for (const connection of [...this.#idle.splice(0), ...this.#released, ...this.#cooling]) connection.destroy()
      if (this.#sockets === 0) resolve()
    })
  }

  opening(): void {
    this.#sockets++
  }

  opened(): void {
    this.open++
  }

  closed(wasOpen: boolean): void {
    if (wasOpen) this.open--
    if (--this.#sockets === 0) this.#onEmpty?.()
  }

  /**
   * What an upstream sent beyond its answer may be there already, unread. The connection is not used before the event loop
   * has looked for input once more: a read then closes it, and no other request takes those bytes for its answer.
   */
  released(connection: Carrier): void {
    if (this.#onEmpty || this.#idle.length >= maxIdle) return connection.destroy()
    if (this.#released.length + this.#cooling.length === 0) setImmediate(cool, this)
    this.#released.push(connection)
  }

  /** Runs after every look for input as long as something was released. */
  cool(): void {
    const now = performance.now()
    for (const connection of this.#cooling) {
      connection.wait(now)
      if (connection.usable(now)) this.#idle.push(connection)
      else connection.destroy()
    }
    this.#cooling.length = 0
    const empty = this.#cooling
    this.#cooling = this.#released
    this.#released = empty
    if (this.#cooling.length > 0) setImmediate(cool, this)
  }
}

function cool(pool: Pool): void {
  pool.cool()
}
