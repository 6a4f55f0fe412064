// Work of milliseconds in slices, one after another, so that nothing else that the event loop has to do waits for long.

/** Milliseconds of all such work together in one turn of the event loop. */
const shareMs = 4

/** Work that can stop and go on. */
export interface Work<T> {
  /**
   * Goes on until the time has come (`performance.now()`), at least for a moment. Undefined when there is more to do.
   * Throws what the work fails with.
   */
  advance(until: number): T | undefined
}

interface Waiting {
  advance(until: number): unknown
  resolve(value: unknown): void
  reject(error: unknown): void
}

/** Those that have not been done at once, each at the end of the line after its slice. */
const line: Waiting[] = []
/** `performance.now()` up to which there may be worked in this turn of the event loop; undefined while nobody has. */
let turnEnds: number | undefined

/**
 * Does work in this turn of the event loop as far as there is time, and the rest of it in later ones, in which
 * everybody who has work gets a slice. What it comes to, at once when it is done at once.
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
