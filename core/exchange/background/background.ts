// Sees to it that work which goes on after its request ends, and is settled once: by asking upstreams, or by going on without the client.
import { randomBytes } from 'node:crypto'
import { caller, goingOn, reservation } from '../../contract/slots.ts'
import type { Background, NewWork, Progress, WorkKind, WorkQuestion } from '../../contract/background.ts'
import type { Exchange, Outcome, WholeReply } from '../../contract/contract.ts'
import { accountOf, channelTo } from '../../catalogue/account.ts'
import type { TaskSettings } from '../../catalogue/settings.ts'
import { GatewayError } from '../../errors.ts'
import type { RequestRecord } from '../../store/requests.ts'
import type { Services } from '../../store/services.ts'
import { isOpen } from '../../store/works.ts'
import type { Work } from '../../store/works.ts'
import type { Logger } from '../../telling/log.ts'
import type { Transport } from '../../transport/transport.ts'
import { clientClosed } from '../attempts.ts'
import type { LiveExchange } from '../exchange.ts'
import type { GenerationSource } from '../generation.ts'
import { conclude } from './conclusion.ts'
import { Questions } from './question.ts'
import type { ChannelAnswer } from './question.ts'
import { Pool, Run } from './run.ts'
import { Rounds } from './rounds.ts'

/** Milliseconds after its deadline for which the hold of work is kept: whoever sees to it ends it before. */
const grace = 86_400_000
/** Milliseconds between two looks for what has expired, and how much of it is forgotten at a time. */
const sweepMs = 60_000
const sweepRows = 200
/** Milliseconds that somebody waits for an upstream's answer. */
const patience = 5000
/** What may stand in an address. */
const hostName = /^[\w.:[\]-]{1,255}$/
/** Times in a row that an upstream may not know its own work. */
const mostMisses = 3

/** What it works with. */
export interface BackgroundParts {
  services: Services
  generations: GenerationSource
  transport: Transport
  /** By name. */
  kinds: ReadonlyMap<string, WorkKind>
  log: Logger
}

/** All work of a process. */
export class BackgroundWork implements Background {
  readonly #parts: BackgroundParts
  readonly #questions: Questions
  readonly #rounds: Rounds
  readonly #pool = new Pool()
  /** By the id of the request. */
  readonly #runs = new Map<string, Run>()
  #sweep: NodeJS.Timeout | undefined
  #closed = false

  constructor(parts: BackgroundParts) {
    this.#parts = parts
    this.#questions = new Questions(parts.transport)
    this.#rounds = new Rounds(parts.services.works, () => this.#settings().poll, (work) => this.#ask(work))
  }

  /** Takes up what was open when the last process ended. What went on in that process has ended with it. Once. */
  start(): void {
    for (const work of this.#parts.services.works.open()) {
      if (work.channel !== null) this.#rounds.add(work)
      else this.#end(work, { status: 'failed', error: { code: 'task_interrupted', message: 'The gateway was restarted while it was at work.' } }).catch(ignore)
    }
    this.#sweep = setInterval(() => void this.#forgetExpired(), sweepMs).unref()
  }

  /** Asks no more. What is open stays open for the next start. */
  close(): void {
    clearInterval(this.#sweep)
    this.#rounds.close()
    this.#closed = true
    this.#questions.close()
  }

  /** Exchanges that wait for their turn. */
  get waiting(): number {
    return this.#pool.waiting
  }

  admit(): void {
    const { open } = this.#settings()
    if (this.#parts.services.works.running < open) return
    throw new GatewayError('overloaded', `There are ${open} tasks under way, and no room for more. Try again later.`, { retryAfterMs: 5000 })
  }

  begin(exchange: Exchange, begun: NewWork): Work {
    const work = this.#newWork(exchange, begun)
    const keep = this.#takeOver(exchange, work)
    exchange.defer(keep)
    return work
  }

  handOver(exchange: Exchange, begun: NewWork): Promise<void> {
    return this.#takeOver(exchange, this.#newWork(exchange, begun))()
  }

  /** From now on the exchange leaves its hold and its record alone. What is returned keeps both for the work, while the exchange is being settled. */
  #takeOver(exchange: Exchange, work: Work): () => Promise<void> {
    const { works } = this.#parts.services
    let record: RequestRecord | undefined
    exchange.set(goingOn, {
      keep: (kept) => {
        record = kept
      }
    })
    return async () => {
      const detached = exchange.find(reservation)?.detach(work.deadline + grace)
      // When the plugins have been told, and the record is here: still in the same turn.
      const put = Promise.resolve().then(() => works.put({ ...work, record: record ?? null }))
      await Promise.all([detached, put])
      this.#rounds.add(work)
    }
  }

  /**
   * The exchange is to go on without its client: what the client is to be answered, when that is on disk.
   * @throws GatewayError `overloaded`, or what the request is refused with
   */
  async accept(exchange: LiveExchange): Promise<WholeReply> {
    const { works } = this.#parts.services
    const { begin, accepted } = exchange.request.operation.goesOn!
    const settings = this.#settings()
    this.admit()
    if (this.#pool.waiting >= settings.waiting) throw new GatewayError('overloaded', `There are ${settings.waiting} tasks waiting already. Try again later.`, { retryAfterMs: 5000 })
    const work = this.#newWork(exchange, { ...begin(exchange), status: 'queued', channel: null, upstreamId: null })
    const run = new Run(exchange, work, works, this.#pool)
    exchange.standIn = run
    exchange.defer((outcome) => this.#runEnded(run, exchange, outcome))
    this.#runs.set(work.requestId, run)
    // A start ends what a crash leaves of it: such a hold is kept for nobody.
    await Promise.all([works.put(work), exchange.find(reservation)?.detach(exchange.receivedAt)])
    if (exchange.gone) throw clientClosed()
    return accepted(exchange, work)
  }

  /** The client has been answered: takes its place, and resolves when it is the exchange's turn. */
  async goOn(exchange: LiveExchange): Promise<void> {
    const { works } = this.#parts.services
    const run = this.#runs.get(exchange.id)!
    const { work } = run
    exchange.client.onGone = null
    exchange.client = run.client
    await this.#pool.enter(run, this.#settings().running)
    const current = works.current(work, work.id)
    if (current) void works.put({ ...current, status: 'in_progress', updated: Date.now() }).catch(ignore)
  }

  async refresh(work: Work): Promise<Work> {
    if (isOpen(work) && work.channel !== null) await within(patience, this.#rounds.ask(work))
    return this.#latest(work)
  }

  async saw(work: Work, body: unknown): Promise<Work> {
    await this.#apply(work, this.#parts.kinds.get(work.kind)?.read(body, work))
    return this.#latest(work)
  }

  async cancel(work: Work): Promise<Work> {
    const latest = await this.refresh(work)
    if (!isOpen(latest)) return latest
    const run = this.#runs.get(work.requestId)
    if (run) {
      run.cancel()
      await run.over
    } else {
      await this.#tell(latest, 'cancel')
      await this.#end(latest, { status: 'cancelled' })
    }
    return this.#latest(work)
  }

  async remove(work: Work): Promise<void> {
    const ended = await this.cancel(work)
    await this.#tell(ended, 'forget')
    await this.#parts.services.works.forget(ended)
  }

  address({ request: { headers } }: Exchange, path: string): string {
    const { listen, tasks } = this.#parts.generations.current.config.settings
    if (tasks.baseUrl !== '') return `${tasks.baseUrl}${path}`
    const host = String(headers['host'] ?? headers[':authority'] ?? '')
    return hostName.test(host) ? `${listen.tls ? 'https' : 'http'}://${host}${path}` : path
  }

  #settings(): TaskSettings {
    return this.#parts.generations.current.config.settings.tasks
  }

  #newWork(exchange: Exchange, { id = `task_${randomBytes(24).toString('base64url')}`, kind, status, channel, upstreamId, details }: NewWork): Work {
    const { tenant = '', project = '' } = exchange.find(caller) ?? {}
    const created = exchange.receivedAt
    return {
      id, kind, tenant, project, requestId: exchange.id, model: exchange.model, channel: channel?.name ?? null, account: channel ? accountOf(channel) : '', upstreamId, status, progress: 0, created, updated: created,
      ended: null, deadline: created + this.#settings().deadline, expires: null, error: null, usage: null, details, record: null
    }
  }

  async #latest(work: Work): Promise<Work> {
    return (await this.#parts.services.works.find(work, work.id)) ?? work
  }

  /** The exchange is being settled: what came of the work is on disk with what it cost, or neither is. */
  async #runEnded(run: Run, exchange: LiveExchange, { kind, error: failure }: Outcome): Promise<void> {
    const { work } = run
    const error = run.failure ?? failure
    this.#pool.leave(run)
    this.#runs.delete(work.requestId)
    const usage = exchange.attempts.at(-1)?.usage?.usage
    const end: Progress =
      kind === 'completed' ? { status: 'succeeded', usage }
      : run.cancelled ? { status: 'cancelled' }
      : { status: 'failed', error: { code: error?.details.shownCode ?? error?.code ?? 'internal_error', message: error?.message ?? 'The task failed.' } }
    try {
      await this.#end(work, end, false)
    } finally {
      run.settled()
    }
  }

  #end(work: Work, end: Progress, holds = true): Promise<void> {
    const { services } = this.#parts
    return conclude(work, end, { services, tell: (record) => this.#tellPlugins(record), keep: this.#settings().keep }, holds)
  }

  #tellPlugins(record: RequestRecord): void {
    const generation = this.#parts.generations.enter()
    try {
      for (const { plugin, call } of generation.chain.onConcluded) {
        try {
          call(record)
        } catch (error) {
          this.#parts.log.error('a plugin failed when told of the end of work', { plugin, exchange: record.request_id, error: String(error) })
        }
      }
    } finally {
      generation.leave()
    }
  }

  /** Asks its upstream how far it is. Ends what has taken too long. */
  async #ask(work: Work): Promise<void> {
    const kind = this.#parts.kinds.get(work.kind)
    const answer = kind && (await this.#question(work, kind.ask(work)))
    if (this.#closed) return
    const found = answer && answer.status >= 200 && answer.status < 300
    await this.#apply(work, found ? kind.read(answer.body, work) : undefined)
    const misses = this.#rounds.missed(work, answer?.status === 404)
    if (misses >= mostMisses) await this.#end(work, { status: 'failed', error: { code: 'task_lost', message: 'The upstream does not know the task any more.' } })
    else if (Date.now() >= work.deadline) {
      await this.#tell(work, 'cancel')
      await this.#end(work, { status: 'expired' })
    }
  }

  async #apply(work: Work, progress: Progress | undefined): Promise<void> {
    const { works } = this.#parts.services
    const latest = works.current(work, work.id)
    if (!latest || !progress) return
    if (!isOpen(progress)) return this.#end(latest, progress)
    // Neither goes back, whatever an upstream says.
    const status = latest.status === 'in_progress' ? 'in_progress' : progress.status
    const far = Math.max(latest.progress, Math.min(Math.floor(progress.progress ?? 0), 99))
    if (status === latest.status && far === latest.progress) return
    const next = { ...latest, status, progress: far, updated: Date.now() }
    if (status === latest.status) works.note(next)
    else await works.put(next)
  }

  /** Tells its upstream something, whatever comes of it. */
  async #tell(work: Work, what: 'cancel' | 'forget'): Promise<void> {
    const question = this.#parts.kinds.get(work.kind)?.[what]?.(work)
    if (question && work.channel !== null) await this.#question(work, question)
  }

  async #question(work: Work, question: WorkQuestion): Promise<ChannelAnswer | undefined> {
    const generation = this.#parts.generations.enter()
    try {
      const channel = channelTo(work.account, work.channel ?? '', generation.config.channels)
      return channel && (await this.#questions.ask(channel, question, this.#parts.kinds.get(work.kind)?.largestAnswer))
    } finally {
      generation.leave()
    }
  }

  async #forgetExpired(): Promise<void> {
    const { works } = this.#parts.services
    try {
      for (const work of await works.expired(sweepRows)) await works.forget(work)
    } catch (error) {
      this.#parts.log.warn('tasks that have expired could not be forgotten: it is tried again', { error: String(error) })
    }
  }
}

/** Waits for a promise, but not for longer; rejections are its owner's. */
async function within(ms: number, promise: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  await Promise.race([promise.catch(ignore), new Promise((resolve) => (timer = setTimeout(resolve, ms)))])
  clearTimeout(timer)
}

function ignore(): void {}
