// The metrics of all workers. What one has counted that has ended stays in the sums.
import { aggregated } from '../telling/metrics.ts'
import type { MetricSnapshot } from '../telling/metrics.ts'
import type { Answers } from './crew.ts'
import type { Member } from './member.ts'

/** How long workers have to answer, in milliseconds. Of one that does not, its last report counts. */
const patience = 200

type Snapshot = readonly MetricSnapshot[]

/** Collects what workers say of their metrics. */
export class Figures {
  readonly #ask: (ms: number) => Promise<Pick<Answers<Snapshot>, 'answers'>>
  /** The latest of each worker that has a thread. */
  readonly #latest = new Map<Pick<Member, 'over'>, Snapshot>()
  /** What those have counted that have ended. */
  #ended: Snapshot = []

  /** `ask` asks all workers, who have so many milliseconds to answer. */
  constructor(ask: (ms: number) => Promise<Pick<Answers<Snapshot>, 'answers'>>) {
    this.#ask = ask
  }

  /** A worker tells by itself, so that little is lost when it ends. */
  report(member: Pick<Member, 'over'>, snapshot: Snapshot): void {
    if (!member.over) this.#latest.set(member, snapshot)
  }

  /** The thread of a worker has ended: what it counted stays, and how it was does not. */
  ended(member: Pick<Member, 'over'>): void {
    const last = this.#latest.get(member)
    this.#latest.delete(member)
    if (last) this.#ended = aggregated([this.#ended, last.filter(({ type }) => type !== 'gauge')])
  }

  /** What workers have, and those had that have ended. */
  async all(): Promise<readonly Snapshot[]> {
    const { answers } = await this.#ask(patience)
    for (const [member, snapshot] of answers) this.report(member, snapshot)
    return [this.#ended, ...this.#latest.values()]
  }
}
