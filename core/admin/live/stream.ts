// One live stream: writes events to somebody who may read slowly or not at all, and keeps no more than the newest.
import type { Writable } from 'node:stream'
import type { Flow } from '../api/contract.ts'
import type { Audience, Watcher } from './audience.ts'
import { block } from './event.ts'
import type { LiveEvent, Topic } from './event.ts'

/** What a browser waits before it comes back, in milliseconds. */
const comeBackMs = 2000
/** A reader who takes nothing for this long is given up, in milliseconds. */
const stalledMs = 30_000
/** The most milliseconds without a sign that the stream is alive. */
const silentMs = 15_000

/**
 * Writes what an audience is shown about some topics. `last` is the id of the last event that the reader has; empty for
 * none. `left` is called when the stream is over.
 */
export function streamOf(audience: Audience, about: ReadonlySet<Topic>, last: string, left: () => void): Flow {
  return async (to, ended) => {
    const over = Promise.withResolvers<void>()
    const reader = new Reader(to, about, () => over.resolve())
    to.write(`retry: ${comeBackMs}\n\n`)
    const missed = last === '' ? undefined : audience.after(last)
    if (missed) for (const event of missed) reader.take(event)
    else {
      // What comes next does not follow on what the reader has: it loads anew what it shows.
      to.write(`id: ${audience.id}\n${block('reset', '{}')}`)
      for (const topic of ['troubles', 'config'] as const) {
        const present = about.has(topic) ? audience.sight(topic) : undefined
        if (present !== undefined) to.write(block(topic, present))
      }
    }
    const resume = (): void => reader.resume()
    to.on('drain', resume)
    audience.join(reader)
    ended.addEventListener('abort', () => over.resolve(), { once: true })
    if (ended.aborted) over.resolve()
    try {
      await over.promise
    } finally {
      audience.leave(reader)
      to.off('drain', resume)
      left()
    }
    if (reader.stalled) to.destroy()
    else if (ended.reason !== 'gone') to.write(block('end', JSON.stringify({ why: ended.reason })))
  }
}

/** Somebody who reads a stream. */
class Reader implements Watcher {
  readonly topics: ReadonlySet<Topic>
  /** Whether it was given up. */
  stalled = false
  readonly #to: Writable
  readonly #giveUp: () => void
  /** The newest event of each topic that could not be written yet, and how many were replaced. */
  readonly #waiting = new Map<Topic, LiveEvent>()
  #missed = 0
  #wroteAt = performance.now()

  constructor(to: Writable, topics: ReadonlySet<Topic>, giveUp: () => void) {
    this.#to = to
    this.topics = topics
    this.#giveUp = giveUp
  }

  take(event: LiveEvent): void {
    if (!this.topics.has(event.topic)) return
    if (!this.#to.writableNeedDrain) return this.#write(event.text)
    if (this.#waiting.has(event.topic)) this.#missed++
    // It is put behind the others, so that ids grow.
    this.#waiting.delete(event.topic)
    this.#waiting.set(event.topic, event)
  }

  beat(now: number): void {
    const silent = now - this.#wroteAt
    if (this.#to.writableNeedDrain) {
      if (silent < stalledMs) return
      this.stalled = true
      this.#giveUp()
    } else if (silent >= silentMs) this.#write(': \n\n')
  }

  /** Goes on after the reader has caught up. */
  resume(): void {
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    const missed = this.#missed
    this.#missed = 0
    if (missed > 0) this.#write(block('missed', `{"events":${missed}}`))
    for (const event of waiting) this.#write(event.text)
  }

  #write(text: string): void {
    this.#wroteAt = performance.now()
    this.#to.write(text)
  }
}
