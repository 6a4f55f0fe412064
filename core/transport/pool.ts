// The connections to one origin: one for each request under way, and idle ones for the next requests.
import { AfterLook } from './after-look.ts'
import type { Carrier, Keeper } from './carrier.ts'

/** The most idle connections; those released above it are closed. */
const maxIdle = 4096

/** The user of an idle connection. */
export interface Taker {
  /**
   * Called when nothing has come over the connection since it was taken, or when the connection is not usable any more.
   */
  proved(): void
}

/**
 * The connections to one origin, shared by channels and generations. There is no limit and no queue: each request has a
 * connection of its own, the most recently used idle one if there is any.
 * Bytes that come over an idle connection are not the answer to any request. They may be there unread, and be read just
 * before or after the next request is sent. So a connection rests after every answer, and is checked once more when it
 * is taken. If anything is read at either time, the connection is closed.
 */
export class Pool implements Keeper {
  /** Established connections. */
  open = 0
  readonly #connect: (keeper: Keeper) => Carrier
  readonly #end: () => void
  /** In the order of release. Closed connections stay until they are reached. */
  readonly #idle: Carrier[] = []
  readonly #resting = new AfterLook<Carrier>((connection) => this.#keep(connection))
  readonly #taken = new AfterLook<Taker>((taker) => taker.proved())
  readonly #reuse: boolean
  /** All sockets, including those that are connecting. */
  #sockets = 0
  /** Called when the last socket is closed; undefined until {@link close}. */
  #onEmpty: (() => void) | undefined

  /**
   * `connect` makes a carrier, which opens its own connection or shares one, and tells the pool about its sockets.
   * `reuse`: a carrier may carry more than one call. `end` is called when the pool is closed.
   */
  constructor(connect: (keeper: Keeper) => Carrier, reuse: boolean, end: () => void = () => {}) {
    this.#connect = connect
    this.#reuse = reuse
    this.#end = end
  }

  /**
   * An idle connection, if there is one. `taker` is told when it may send its request, provided the connection is still
   * usable. `now`: `performance.now()`.
   */
  take(now: number, taker: Taker): Carrier | undefined {
    for (let last = this.#idle.pop(); last; last = this.#idle.pop()) {
      if (last.usable(now)) {
        this.#taken.add(taker)
        return last
      }
      last.destroy()
    }
    return undefined
  }

  /** A new carrier, which may be given a request at once. */
  connect(): Carrier {
    return this.#connect(this)
  }

  /** Closes the connections that have been idle for too long. */
  sweep(now: number): void {
    const idle = this.#idle
    let kept = 0
    for (const connection of idle) {
      if (connection.usable(now)) idle[kept++] = connection
      else connection.destroy()
    }
    idle.length = kept
  }

  /** Closes idle connections, and resolves when the last answer has ended. From now on no connection is kept. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#onEmpty = resolve
      this.#end()
      for (const connection of [...this.#idle.splice(0), ...this.#resting.clear()]) connection.destroy()
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

  released(connection: Carrier): void {
    if (this.#onEmpty || !this.#reuse || this.#idle.length >= maxIdle) connection.destroy()
    else this.#resting.add(connection)
  }

  #keep(connection: Carrier): void {
    const now = performance.now()
    connection.wait(now)
    if (connection.usable(now)) this.#idle.push(connection)
    else connection.destroy()
  }
}
