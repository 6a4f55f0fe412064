// The connections of one origin: one for each running request, and those that wait for the next.
import { AfterLook } from './after-look.ts'
import type { Carrier, Keeper } from './carrier.ts'

/** Connections that wait; what is released beyond is closed. */
const maxIdle = 4096

/** Has taken a connection that waited. */
export interface Taker {
  /** Nothing has come over it since it was taken, or it is not usable any more. */
  proved(): void
}

/**
 * Shared by channels and generations. There is no limit and no queue: a request has a connection of its own, the one
 * that was used last if any waits.
 *
 * What comes over a connection that nobody uses is nobody's answer. It may be there unread, and be read before or after
 * the request that is about to be sent: so a connection rests after every answer, and is looked at once more when it is
 * taken. A read in either time closes it.
 */
export class Pool implements Keeper {
  /** Established connections. */
  open = 0
  readonly #connect: (keeper: Keeper) => Carrier
  readonly #end: () => void
  /** The one released last is last. Closed ones stay until they are come upon. */
  readonly #idle: Carrier[] = []
  readonly #resting = new AfterLook<Carrier>((connection) => this.#keep(connection))
  readonly #taken = new AfterLook<Taker>((taker) => taker.proved())
  readonly #reuse: boolean
  /** Sockets, those that are connecting included. */
  #sockets = 0
  /** Called when the last socket is gone; undefined until {@link close}. */
  #onEmpty: (() => void) | undefined

  /**
   * `connect` makes a carrier that connects for itself or shares what others have, and tells the pool of sockets.
   * `reuse`: it carries more than one call. `end` is called when no new one is wanted any more.
   */
  constructor(connect: (keeper: Keeper) => Carrier, reuse: boolean, end: () => void = () => {}) {
    this.#connect = connect
    this.#reuse = reuse
    this.#end = end
  }

  /**
   * A connection that waited, if there is one: `taker` is told when it may send something, if the connection is usable
   * still. `now`: `performance.now()`.
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

  /** A new one, which may be sent something at once. */
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
