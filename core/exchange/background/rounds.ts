// When which work is asked for: less and less often, never all at once, and once for all who ask at one time.
import type { Work, Works } from '../../store/works.ts'
import { steadyNow } from '../../watchdog/steady-time.ts'

/** Questions under way at a time. One that waits for a slow upstream keeps nobody else waiting. */
const mostAtOnce = 64
/** By how much each pause is longer than the one before, and how far chance moves it. */
const growth = 1.5
const chance = 0.2

/** Milliseconds between two questions: the first time, and at most. */
export interface Pauses {
  first: number
  most: number
}

interface Round {
  pause: number
  askedAt: number
  asking: Promise<void> | undefined
  misses: number
  timer: NodeJS.Timeout | undefined
}

/** The rounds of a process. */
export class Rounds {
  readonly #works: Works
  readonly #pauses: () => Pauses
  readonly #ask: (work: Work) => Promise<void>
  /** By the id of the request. */
  readonly #rounds = new Map<string, Round>()
  #asking = 0
  #closed = false

  /** `ask` asks about work as it is then. */
  constructor(works: Works, pauses: () => Pauses, ask: (work: Work) => Promise<void>) {
    this.#works = works
    this.#pauses = pauses
    this.#ask = ask
  }

  /** From now on it is asked for until it has ended. */
  add(work: Work): void {
    const round: Round = {
      pause: this.#pauses().first,
      askedAt: -Infinity,
      asking: undefined,
      misses: 0,
      timer: undefined
    }
    this.#rounds.set(work.requestId, round)
    this.#wait(work, round)
  }

  /** Somebody wants to know: asks unless that was done just now. Resolves when what was said has been taken down. */
  ask(work: Work): Promise<void> {
    const round = this.#rounds.get(work.requestId)
    // Nobody asks by himself about what its exchange is still hearing of.
    if (!round) return this.#latest(work)
    if (round.asking) return round.asking
    return performance.now() - round.askedAt < this.#pauses().first ? Promise.resolve() : this.#go(work, round)
  }

  /** Whether its upstream did not know it; how often that was so in a row. */
  missed(work: Work, missed: boolean): number {
    const round = this.#rounds.get(work.requestId)
    if (!round) return 0
    round.misses = missed ? round.misses + 1 : 0
    return round.misses
  }

  open(): void {
    this.#closed = false
  }

  close(): void {
    this.#closed = true
    for (const { timer } of this.#rounds.values()) clearTimeout(timer)
    this.#rounds.clear()
  }

  #wait(work: Work, round: Round): void {
    const { most } = this.#pauses()
    const pause = Math.min(round.pause, most, Math.max(work.deadline - steadyNow(), 1))
    round.pause = Math.min(round.pause * growth, most)
    clearTimeout(round.timer)
    round.timer = setTimeout(() => void this.#go(work, round), pause * (1 + chance * (2 * Math.random() - 1))).unref()
  }

  #go(work: Work, round: Round): Promise<void> {
    if (round.asking) return round.asking
    if (this.#asking >= mostAtOnce) {
      this.#wait(work, round)
      return Promise.resolve()
    }
    this.#asking++
    round.askedAt = performance.now()
    clearTimeout(round.timer)
    const asking = this.#latest(work)
      .catch(ignore)
      .finally(() => {
        this.#asking--
        round.asking = undefined
        if (this.#closed) return
        if (this.#works.current(work, work.id)) this.#wait(work, round)
        else this.#rounds.delete(work.requestId)
      })
    round.asking = asking
    return asking
  }

  #latest(work: Work): Promise<void> {
    const latest = this.#works.current(work, work.id)
    return latest ? this.#ask(latest) : Promise.resolve()
  }
}

/** What could not be written now is asked for, and written, again. */
function ignore(): void {}
