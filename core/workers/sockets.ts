// The listening sockets of a gateway of workers. The supervisor has a copy of each, by which nobody who waits for a
// worker is lost with it, and says which worker accepts on which.
import type { OwnSocket } from '../clients/copies.ts'

/** The sockets of the port, as the supervisor owns them. It accepts on none. */
export class Sockets {
  readonly #workers: number
  /** By number, from 0 on. Undefined: the worker of the place has its own, or has none yet. */
  #kept: (OwnSocket | undefined)[]

  /**
   * `passed`: those that the process was started with, and owns from now on. Without them each worker makes one of its
   * own.
   */
  constructor(workers: number, passed: readonly OwnSocket[] = []) {
    this.#workers = workers
    this.#kept = passed.length > 0 ? [...passed] : Array.from({ length: workers }, () => undefined)
  }

  /** The descriptors of those that the worker of a place accepts on; none when it has to make one. */
  of(place: number): readonly number[] {
    return this.#kept.flatMap((socket, number) => (socket && this.#isOf(number, place) ? socket.fd : []))
  }

  /** Whether that worker makes a socket of its own. */
  lacks(place: number): boolean {
    return this.of(place).length === 0
  }

  /** Keeps a copy of the socket that the worker of a place has made. */
  keep(place: number, copy: OwnSocket): void {
    this.#kept[place - 1] = copy
  }

  /** All of them. */
  get descriptors(): readonly number[] {
    return this.#kept.flatMap((socket) => socket?.fd ?? [])
  }

  /**
   * Who accepts on which sockets for workers that do not serve: descriptors by the place of each worker that serves.
   * Connections come to all sockets alike, so those of an empty place would wait there until it is taken again.
   */
  substitutes(serving: readonly number[]): ReadonlyMap<number, readonly number[]> {
    const found = new Map<number, number[]>(serving.map((place) => [place, []]))
    for (const [number, socket] of this.#kept.entries()) {
      if (!socket || serving.length === 0 || serving.some((place) => this.#isOf(number, place))) continue
      const next = serving.find((place) => place > (number % this.#workers) + 1) ?? serving[0]!
      found.get(next)!.push(socket.fd)
    }
    return found
  }

  /** Closes the supervisor's copies: the queues end with the workers. */
  close(): void {
    for (const socket of this.#kept.splice(0)) socket?.close()
  }

  /** Workers share a socket where there are fewer, and have several where there are more. */
  #isOf(number: number, place: number): boolean {
    const count = this.#kept.length
    return count < this.#workers ? (place - 1) % count === number : number % this.#workers === place - 1
  }
}
