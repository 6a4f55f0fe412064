// A seat in the shared memory: by it one thread takes locks and changes what they guard, whole or not at all.
import { GatewayError } from '../../../errors.ts'
import type { Arena } from './arena.ts'
import { undoUnits, undoWords } from './arena.ts'

/** How often a taken lock is looked at before the thread waits for it: holders need less than a microsecond. */
const spins = 100
/** The longest wait for a lock before it is looked at again, in milliseconds. */
const nap = 1
/** When a change is tried again that found a lock taken, in milliseconds. */
const again = 5

/** Beside who has a lock: others wait for it, and have to be woken. */
const wanted = 1 << 30

/** The words of a seat, from its first one on. */
export const boot = 0
export const beats = 1
export const waiting = 2
export const undone = 3

/** That a lock was not free in time. Only a seat with patience throws it. A request that meets it is refused. */
export class BusyLock extends GatewayError {
  constructor() {
    super('billing_unavailable', 'Requests cannot be accounted for at the moment. Try again.', {
      retryAfterMs: 1000,
      cause: 'another thread has the lock of the tenant for too long: it hangs, and is ended in some seconds'
    })
  }
}

/**
 * What is in the word of a lock that a thread has; never 0. Boots are counted, so that no later thread has the
 * same.
 */
export function ownerOf(seat: number, boot: number): number {
  return (boot << 8) | seat
}

/** Whether the word of a lock says that this owner has it. */
export function isHeldBy(word: number, owner: number): boolean {
  return (word & ~wanted) === owner
}

/** Frees a lock, and wakes one of those who wait for it. */
export function free(words: Int32Array, at: number): void {
  if (Atomics.exchange(words, at, 0) & wanted) Atomics.notify(words, at, 1)
}

/** Puts everything back that a seat has changed and not committed. Its thread has ended, or is the one that calls. */
export function rollBack(arena: Arena, seat: number): void {
  const { words } = arena
  const [count, row] = [arena.seatAt(seat) + undone, arena.undoAt(seat)]
  // Backwards, so that of a unit that was saved twice the older value stays. What is done again changes nothing.
  for (let entry = words[count]! - 1; entry >= 0; entry--) {
    const at = row + undoWords * entry
    const unit = words[at]!
    words[2 * unit] = words[at + 1]!
    words[2 * unit + 1] = words[at + 2]!
  }
  words[count] = 0
}

/** The seat of this thread. One thread has one, from the supervisor, and nothing here is called by another one. */
export class Seat {
  readonly arena: Arena
  readonly number: number
  readonly #owner: number
  readonly #patience: number
  readonly #words: Int32Array
  readonly #at: number
  readonly #undo: number
  /** The locks that the change under way has. */
  readonly #locked: number[] = []

  /** `patience`: how long it waits for a lock, in milliseconds. A thread that must never stand still has some. */
  constructor(arena: Arena, number: number, patience = Infinity) {
    this.arena = arena
    this.number = number
    this.#patience = patience
    this.#words = arena.words
    this.#at = arena.seatAt(number)
    this.#undo = arena.undoAt(number)
    this.#owner = ownerOf(number, this.#words[this.#at + boot]!)
  }

  /**
   * Takes locks, does the work, and frees them. Whatever the work has {@link Seat.save saved} and changed is undone
   * when it throws, and by the supervisor when the thread ends in the middle. The work is short and synchronous, and
   * calls nothing that it does not know. `locks` are in ascending order, so that no two threads wait for each other.
   * A change within a change keeps its locks until the outer one ends; that may only be done with the same locks, or
   * with some above them.
   * @throws BusyLock when the patience of this seat is over
   */
  change<T>(locks: readonly number[], work: () => T): T {
    const locked = this.#locked
    const outer = locked.length === 0
    if (!outer) {
      this.#takeAll(locks)
      return work()
    }
    try {
      this.#takeAll(locks)
      const made = work()
      this.#commit()
      return made
    } catch (error) {
      rollBack(this.arena, this.number)
      throw error
    } finally {
      while (locked.length > 0) free(this.#words, this.arena.lockAt(locked.pop()!))
    }
  }

  /**
   * Does work that makes one change, which nothing may prevent. Where it is refused, it is done soon: when the lock is
   * free for which this seat had no patience, or when there is room for a row that was forgotten. Until then the
   * journal alone knows of it.
   */
  surely(work: () => void): void {
    try {
      work()
    } catch (error) {
      // Within another change that one is undone too, and whoever began it has to do it again.
      if (!(error instanceof GatewayError) || this.#locked.length > 0) throw error
      setTimeout(() => this.surely(work), again).unref()
    }
  }

  /** How many changes there were under a lock that this thread has. */
  sequence(lock: number): number {
    return this.#words[this.arena.sequenceAt(lock)]!
  }

  /**
   * Notes what is in `length` units, before the work changes them.
   * @throws RangeError when one change would alter more than a thread can undo
   */
  save(unit: number, length = 1): void {
    const words = this.#words
    const count = words[this.#at + undone]!
    if (count + length > undoUnits) throw new RangeError(`one change can alter ${undoUnits} units, and this one more`)
    let entry = this.#undo + undoWords * count
    for (let at = unit; at < unit + length; at++, entry += undoWords) {
      words[entry] = at
      words[entry + 1] = words[2 * at]!
      words[entry + 2] = words[2 * at + 1]!
    }
    // Only now they count. A thread can end before this line, and then nothing has been changed yet.
    words[this.#at + undone] = count + length
  }

  /** Says that the thread is alive; see `Seats.hanging`. */
  beat(): void {
    Atomics.add(this.#words, this.#at + beats, 1)
  }

  #takeAll(locks: readonly number[]): void {
    for (const lock of locks) {
      if (this.#locked.includes(lock)) continue
      this.#take(this.arena.lockAt(lock))
      this.#locked.push(lock)
    }
  }

  /** From here on the change is made: with this one store nothing of it is undone any more. */
  #commit(): void {
    if (this.#words[this.#at + undone] === 0) return
    for (const lock of this.#locked) this.#words[this.arena.sequenceAt(lock)]!++
    this.#words[this.#at + undone] = 0
  }

  #take(at: number): void {
    const words = this.#words
    const owner = this.#owner
    if (Atomics.compareExchange(words, at, 0, owner) === 0) return
    for (let spin = 0; spin < spins; spin++)
      if (Atomics.load(words, at) === 0 && Atomics.compareExchange(words, at, 0, owner) === 0) return
    this.#wait(at)
  }

  /** Waits for a lock. It may be wanted by others too, so the word goes on saying that. */
  #wait(at: number): void {
    const words = this.#words
    const until = performance.now() + this.#patience
    Atomics.store(words, this.#at + waiting, at + 1)
    try {
      for (;;) {
        const locked = Atomics.compareExchange(words, at, 0, this.#owner | wanted)
        if (locked === 0) return
        if (performance.now() > until) throw new BusyLock()
        const word = locked | wanted
        if (locked === word || Atomics.compareExchange(words, at, locked, word) === locked)
          Atomics.wait(words, at, word, nap)
      }
    } finally {
      Atomics.store(words, this.#at + waiting, 0)
    }
  }
}
