// How long work on a store tells of its progress.
import type { Logger } from '../../../telling/log.ts'

/** How much of a step is done, and of how much where that is known. */
export interface Amount {
  done: number
  of?: number | undefined
  unit: 'rows' | 'bytes' | 'files' | 'models'
}

/** Is called with what is being done, at each step and now and then within it. */
export type Tell = (words: string, amount?: Amount) => void

/** Is called now and then with how many rows were gone through, and how many there are. */
export type Reached = (rows: number, of: number) => void

/** Tells of rows under these words. */
export function toldAs(tell: Tell, words: string): Reached {
  return (done, of) => tell(words, { done, of, unit: 'rows' })
}

/** Milliseconds between two lines of a log about one step. */
const between = 10_000

/** Tells a log of each step, and within one now and then how far it is. `about` is in each line. */
export function tellLog(log: Logger, about: Readonly<Record<string, string>>): Tell {
  let [said, at] = ['', -Infinity]
  return (words, amount) => {
    const now = performance.now()
    if (words === said && now - at < between) return
    said = words
    at = now
    log.info(words, { ...about, ...amount })
  }
}

/** Passes items on and tells how many of them have gone by, at the end and every so many. */
export function* counted<T>(items: Iterable<T>, of: number, reached: Reached, stride = 1000): Generator<T> {
  let done = 0
  for (const item of items) {
    if (done++ % stride === 0) reached(done - 1, of)
    yield item
  }
  reached(done, of)
}
