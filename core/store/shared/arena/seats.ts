// Who sits where: the supervisor gives seats to workers, and takes back what is left of a worker that has gone.
import { setTimeout as wait } from 'node:timers/promises'
import type { Arena } from './arena.ts'
import type { Published } from './balance-rows.ts'
import { nameOf, shareOf, takeBack } from './cell.ts'
import type { Share } from './cell.ts'
import { Directory } from './directory.ts'
import { beats, boot, BusyLock, free, isHeldBy, ownerOf, rollBack, Seat, waiting } from './seat.ts'
import { clearSeat, hasOf, isIdle } from './set-row.ts'

/** The seat of the supervisor itself. */
export const supervisor = 0

/** How long the supervisor waits for a lock, in milliseconds, before it does something else. */
const patience = 20
/** How long it does something else, in milliseconds. */
const pause = 5

/** The seats of a gateway. Only the supervisor has one of these. */
export class Seats {
  /** The supervisor's own seat. */
  readonly own: Seat
  readonly #arena: Arena
  readonly #sets: Directory
  readonly #cells: Directory
  /** The heartbeats as they were last seen, and when they changed, by seat. */
  readonly #seen = new Map<number, { beats: number; at: number }>()
  /** How many threads have gone whose seats are not left yet. */
  #leaving = 0
  /** The row that is looked at next, to forget it. */
  #hand = 1

  constructor(arena: Arena) {
    this.#arena = arena
    this.#sit(supervisor)
    this.own = new Seat(arena, supervisor, patience)
    this.#sets = new Directory(arena.sets, this.own)
    this.#cells = new Directory(arena.cells, this.own)
  }

  /**
   * Gives a seat to a worker that is about to be started, but none of those that `leaving` has.
   * @throws Error when all are taken
   */
  give(leaving?: ReadonlySet<number>): number {
    for (let seat = supervisor + 1; seat < this.#arena.seats; seat++)
      if (this.#bootOf(seat) === 0 && leaving?.has(seat) !== true) {
        this.#sit(seat)
        return seat
      }
    throw new Error(`all ${this.#arena.seats - 1} seats are taken: a worker that has gone must leave its seat first`)
  }

  /**
   * Brings the seat of a thread that has ended into order: undoes the change that it was within, frees its locks,
   * gives back its slots, and takes back what it changed of balances and never published. What it published stays;
   * its open holds are the caller's to end. Resolves when the seat can be given again. `published` is asked when
   * nobody else waits for a lock of the thread any more.
   */
  async leave(seat: number, published: () => Iterable<Published>): Promise<void> {
    this.#leaving++
    try {
      await this.#leave(seat, published)
    } finally {
      this.#leaving--
    }
  }

  /** Whether a thread has gone of whose balances not everything was taken back yet. */
  get areLeft(): boolean {
    return this.#leaving > 0
  }

  async #leave(seat: number, published: () => Iterable<Published>): Promise<void> {
    const { words } = this.#arena
    rollBack(this.#arena, seat)
    const owner = ownerOf(seat, this.#bootOf(seat))
    for (let lock = 0; lock < this.#arena.locks; lock++) {
      const at = this.#arena.lockAt(lock)
      if (isHeldBy(Atomics.load(words, at), owner)) free(words, at)
    }
    await this.#each(
      this.#sets,
      (row) => hasOf(this.#arena, row, seat),
      (row) => clearSeat(this.own, row, seat)
    )
    const shares = new Map<number, Share>()
    for (const { scope, window, ...share } of published()) {
      const place = await this.patiently(() => this.#cells.look(nameOf(scope, window)))
      if (place) shares.set(place.row, share)
    }
    const has = (row: number): boolean => {
      const { posted, used } = shareOf(this.#arena, row, seat)
      return posted !== 0n || used !== 0n || shares.has(row)
    }
    await this.#each(this.#cells, has, (row) =>
      takeBack(this.own, row, seat, shares.get(row) ?? { posted: 0n, used: 0n })
    )
    // Sums of hours were made with what has been taken back.
    Atomics.add(words, this.#arena.leftAt, 1)
    this.#seen.delete(seat)
    Atomics.store(words, this.#arena.seatAt(seat) + waiting, 0)
    Atomics.store(words, this.#arena.seatAt(seat) + boot, 0)
  }

  /**
   * The seats whose threads hang: that have said nothing for `patience` milliseconds, and do not wait for the lock of
   * another one. `now`: of a clock that never goes back. Nothing is taken from such a thread before it has ended.
   */
  hanging(now: number, patience: number): readonly number[] {
    const { words } = this.#arena
    const found: number[] = []
    for (let seat = supervisor + 1; seat < this.#arena.seats; seat++) {
      if (this.#bootOf(seat) === 0) continue
      const at = this.#arena.seatAt(seat)
      const beaten = Atomics.load(words, at + beats)
      const seen = this.#seen.get(seat)
      if (!seen || seen.beats !== beaten || Atomics.load(words, at + waiting) !== 0)
        this.#seen.set(seat, { beats: beaten, at: now })
      else if (now - seen.at >= patience) found.push(seat)
    }
    return found
  }

  /** Whether the thread of a seat waits for the lock of another one. */
  waits(seat: number): boolean {
    return Atomics.load(this.#arena.words, this.#arena.seatAt(seat) + waiting) !== 0
  }

  /**
   * Forgets sets of limits of which nothing is taken and nothing remembered. It looks at `count` rows in turn, and
   * leaves those out whose lock somebody has. Returns how many it forgot. `now`: as the limits are told it.
   */
  sweep(count: number, now: number): number {
    let forgotten = 0
    for (let looked = 0; looked < Math.min(count, this.#sets.used); looked++) {
      const row = this.#hand > this.#sets.used ? 1 : this.#hand
      this.#hand = row + 1
      const place = this.#sets.at(row)
      if (!place || !isIdle(this.#arena, row, now)) continue
      try {
        this.own.change([place.lock], () => {
          if (!this.#sets.isAt(place) || !isIdle(this.#arena, row, now)) return
          this.#sets.forget(place)
          forgotten++
        })
      } catch (error) {
        if (!(error instanceof BusyLock)) throw error
      }
    }
    return forgotten
  }

  /** Does work that takes locks, again and again until they are free: who has one may hang, and is ended meanwhile. */
  async patiently<T>(work: () => T): Promise<T> {
    for (;;) {
      try {
        return work()
      } catch (error) {
        if (!(error instanceof BusyLock)) throw error
        await wait(pause)
      }
    }
  }

  #bootOf(seat: number): number {
    return Atomics.load(this.#arena.words, this.#arena.seatAt(seat) + boot)
  }

  #sit(seat: number): void {
    const { words, bootsAt } = this.#arena
    Atomics.store(words, this.#arena.seatAt(seat) + boot, Atomics.add(words, bootsAt, 1) + 1)
  }

  /** Does something with every row that `has` it, each under its lock. */
  async #each(directory: Directory, has: (row: number) => boolean, work: (row: number) => void): Promise<void> {
    for (let row = 1; row <= directory.used; row++) {
      if (!has(row)) continue
      await this.patiently(() => {
        const place = directory.at(row)
        if (place) this.own.change([place.lock], () => directory.isAt(place) && work(row))
      })
    }
  }
}
