// Does long work in slices, one piece of work after the other, so that the event loop is never blocked for long.

/** How many milliseconds all such work may take together in one turn of the event loop. */
const shareMs = 4

/** Work that can stop and go on. */
export interface Work<T> {
  /**
   * Works at least for a moment, and goes on until the time `until` (`performance.now()`). Undefined: there is more to
   * do. Throws when the work fails.
   */
  advance(until: number): T | undefined
}

interface Waiting {
  advance(until: number): unknown
  resolve(value: unknown): void
  reject(error: unknown): void
}

/** Work that is not done. After each slice it moves to the end. */
const line: Waiting[] = []
/**
 * Until when work may go on in this turn of the event loop (`performance.now()`); undefined before any has been done.
 */
let turnEnds: number | undefined

/**
 * Does work in this turn of the event loop as far as there is time, and the rest in later turns, in which all waiting
 * work gets slices. Returns the result, or a promise when it is not done at once.
 */
export function inTurns<T>(work: Work<T>): T | Promise<T> {
  const until = (turnEnds ??= beginTurn())
  if (line.length === 0 && performance.now() < until) {
    const done = work.advance(until)
    if (done !== undefined) return done
  }
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  line.push({ advance: (until) => work.advance(until), resolve: resolve as (value: unknown) => void, reject })
  return promise
}

function beginTurn(): number {
  setImmediate(turn)
  return performance.now() + shareMs
}

function turn(): void {
  turnEnds = line.length > 0 ? beginTurn() : undefined
  while (turnEnds !== undefined && line.length > 0 && performance.now() < turnEnds) {
    const next = line.shift()!
    try {
      const done = next.advance(turnEnds)
      if (done === undefined) line.push(next)
      else next.resolve(done)
    } catch (error) {
      next.reject(error)
    }
  }
}
