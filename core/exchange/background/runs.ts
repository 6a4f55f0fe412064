// Exchanges that go on after their clients were answered: they are taken in, wait for their turn, and end as work does.
import type { Progress } from '../../contract/background.ts'
import type { Outcome, WholeReply } from '../../contract/contract.ts'
import type { OperationContext } from '../../contract/served.ts'
import type { TaskSettings } from '../../catalogue/settings.ts'
import { GatewayError } from '../../errors.ts'
import type { Told, Work, Works } from '../../store/works.ts'
import type { Watchdog } from '../../watchdog/watchdog.ts'
import type { LiveExchange } from '../state/exchange.ts'
import { newWork } from './beginning.ts'
import type { Conclusions } from './conclusion.ts'
import { costsOf, holdEnd, keepHold, recordSoFar } from './keeping.ts'
import { forAWhile } from './patience.ts'
import { full } from './places.ts'
import type { Places } from './places.ts'
import type { Crowded, Turns } from './pool.ts'
import type { StreamRecording } from './recording.ts'
import { Run } from './run.ts'

/**
 * Milliseconds for which an answer is there when it has ended and other threads follow it, since one of them has asked,
 * beyond the time for which a client may read nothing.
 */
const lingering = 30_000

/** What other threads follow. */
interface Followed {
  readonly recording: StreamRecording
  /** When it has ended: forgets it after a while. */
  forgetting?: NodeJS.Timeout
}

/** Those of a process. */
export class Runs {
  readonly #works: Works
  readonly #conclusions: Conclusions
  readonly #settings: () => TaskSettings
  readonly #places: Places
  readonly #turns: Turns
  /** By the id of the request. */
  readonly #runs = new Map<string, Run>()
  /** What other threads follow, for a while beyond its end. */
  readonly #followed = new Map<string, Followed>()

  /** `places`: those that are taken while their work is not among the works. */
  constructor(works: Works, conclusions: Conclusions, places: Places, settings: () => TaskSettings, turns: Turns) {
    this.#works = works
    this.#conclusions = conclusions
    this.#places = places
    this.#settings = settings
    this.#turns = turns
  }

  /** How many wait for their turn. */
  get waiting(): number {
    return this.#turns.waiting
  }

  /**
   * The exchange is to go on without its client: what the client is to be answered, when that is on disk.
   * @throws GatewayError `overloaded`, or what the request is refused with
   */
  async accept(exchange: LiveExchange, context: OperationContext): Promise<WholeReply> {
    const { begin, keepBeginning: prepare, accepted, keepAnswer: keep } = exchange.request.operation.goesOn!
    const { deadline } = this.#settings()
    const work = newWork(exchange, { ...begin(exchange), status: 'queued', channel: null, upstreamId: null }, deadline)
    const entered = this.#turns.enter(work.tenant)
    // Its place is taken now, and not only when all that it waits for is on disk.
    const turn = entered instanceof Promise ? await entered : entered
    if (typeof turn === 'string') throw this.#crowded(turn, work.tenant)
    const run = new Run(
      exchange,
      work,
      async (answer) => {
        const current = this.#current(work)
        const kept = keep
          ? await keep(exchange, current, answer, context)
          : await this.#works.keepResult(current, answer)
        await this.#succeeds(exchange, { ...this.#current(work), ...kept })
      },
      turn,
      () => void this.#runs.delete(work.requestId)
    )
    exchange.standIn = run
    exchange.defer((outcome) => this.#ended(run, exchange, outcome))
    this.#runs.set(work.requestId, run)
    const prepared = prepare ? { ...work, ...(await prepare(exchange, work, context)) } : work
    const whole = { ...prepared, record: recordSoFar(exchange) }
    // From here on whoever takes the work up ends both, whatever becomes of this process.
    const kept = keepHold(exchange, work)
    const put = this.#works.put(whole)
    this.#places.leave(exchange)
    await Promise.all([put, kept])
    if (exchange.over) throw exchange.over
    return accepted(exchange, whole)
  }

  #crowded(by: Crowded, tenant: string): GatewayError {
    const { waiting } = this.#settings()
    if (by === 'waiting')
      return new GatewayError('overloaded', `There are ${waiting} tasks waiting already. Try again later.`, {
        retryAfterMs: 5000,
        reason: full(`${waiting} tasks wait for their turn`, 'tasks.waiting')
      })
    return new GatewayError(
      'rate_limit_concurrency',
      'Too many tasks of your tenant wait for their turn. Try again later.',
      {
        retryAfterMs: 5000,
        reason: full(`the tenant ${tenant} has half of the tasks that may wait`, 'tasks.waiting')
      }
    )
  }

  /** The client has been answered: takes its place, and resolves when it is the exchange's turn. */
  async goOn(exchange: LiveExchange, watchdog: Watchdog): Promise<void> {
    const run = this.#runs.get(exchange.id)!
    const { work } = run
    run.takeOver(watchdog)
    await run.turnComes
    if (run.failure) throw run.failure
    const current = this.#works.current(work, work.id)
    // Shown only: what could not be written changes nothing.
    if (current) void this.#works.put({ ...current, status: 'in_progress', updated: Date.now() }).catch(() => {})
  }

  /** What is answered, as it comes, from the beginning; undefined when no exchange goes on for it. */
  follow(work: Work): AsyncIterable<Buffer> | undefined {
    return this.#runs.get(work.requestId)?.recording.follow()
  }

  /**
   * What is answered, from its piece `from` on, as soon as there is more; undefined when no exchange goes on for it.
   * Whoever asks comes back for the end.
   */
  async tell(work: Work, from: number): Promise<Told | undefined> {
    const { requestId } = work
    const followed = this.#followed.get(requestId) ?? this.#beFollowed(requestId)
    followed?.forgetting?.refresh()
    return followed?.recording.after(from)
  }

  #beFollowed(requestId: string): Followed | undefined {
    const run = this.#runs.get(requestId)
    if (!run) return undefined
    const followed: Followed = { recording: run.recording }
    this.#followed.set(requestId, followed)
    void run.recording.over.then(() => {
      const forget = (): void => void this.#followed.delete(requestId)
      followed.forgetting = setTimeout(forget, lingering + run.clientStall).unref()
    })
    return followed
  }

  /**
   * Calls its exchange off. Resolves with true when that is settled, or takes too long, and with false when none goes
   * on for it.
   */
  async cancel(work: Work): Promise<boolean> {
    const run = this.#runs.get(work.requestId)
    run?.cancel()
    if (run) await forAWhile(run.over)
    return run !== undefined
  }

  /** @throws GatewayError `task_under_way` when another process has taken the work over meanwhile */
  #current(work: Work): Work {
    const current = this.#works.current(work, work.id)
    if (!current) throw new GatewayError('task_under_way', 'Others have taken this over, or ended it, meanwhile.')
    return current
  }

  /** The result is kept. A crash changes nothing now: whoever takes the work up charges for it and shows it. */
  #succeeds(exchange: LiveExchange, work: Work): Promise<void> {
    const metered = exchange.attempts.at(-1)?.usage
    const source = metered?.source === 'upstream' ? 'upstream' : 'estimated'
    const seen = { status: 'succeeded', usage: metered?.usage, source } as const
    return this.#works.put({ ...work, seen, record: recordSoFar(exchange), costs: costsOf(exchange) })
  }

  /** The exchange is being settled: what came of the work is on disk with what it cost, or neither is. */
  async #ended(run: Run, exchange: LiveExchange, { kind, error: failure }: Outcome): Promise<void> {
    const { work } = run
    const error = run.failure ?? failure
    run.turn.leave()
    // Who follows it sees the end when all is settled.
    if (!run.tookOver) {
      this.#runs.delete(work.requestId)
      run.recording.close()
    }
    const usage = exchange.attempts.at(-1)?.usage?.usage
    const end: Progress =
      kind === 'completed'
        ? { status: 'succeeded', usage }
        : run.cancelled
          ? { status: 'cancelled' }
          : {
              status: 'failed',
              error: {
                code: error?.details.shownCode ?? error?.code ?? 'internal_error',
                message: error?.message ?? 'The task failed.'
              }
            }
    try {
      await this.#conclusions.end(work, end, false, holdEnd(exchange))
    } finally {
      run.settled()
    }
  }
}
