// Sees to it that work which goes on after its request ends, and is settled once: by asking upstreams, or by going on
// without the client.
import type { Awaitable } from '../../awaitable.ts'
import { accountOf } from '../../catalogue/account.ts'
import type { Channel } from '../../catalogue/catalogue.ts'
import { ownerOf } from '../../contract/owner.ts'
import { goingOn } from '../../contract/slots.ts'
import type { AttendedWork, Background, NewWork, Progress, WorkKind } from '../../contract/background.ts'
import type { Exchange, WholeReply } from '../../contract/contract.ts'
import type { OperationContext } from '../../contract/served.ts'
import type { TaskSettings } from '../../catalogue/settings.ts'
import { GatewayError } from '../../errors.ts'
import type { Usage } from '../../money/usage.ts'
import type { RequestRecord } from '../../store/requests.ts'
import type { Services } from '../../store/services.ts'
import { isOpen } from '../../store/works.ts'
import type { Errand, Told, Work, Works } from '../../store/works.ts'
import type { Logger } from '../../telling/log.ts'
import type { Transport } from '../../transport/transport.ts'
import type { Watchdog } from '../../watchdog/watchdog.ts'
import type { LiveExchange } from '../state/exchange.ts'
import type { GenerationSource } from '../state/generation.ts'
import { newWork } from './beginning.ts'
import { Conclusions } from './conclusion.ts'
import { Expiry } from './expiry.ts'
import { costsOf, holdEnd, keepHold, recordSoFar } from './keeping.ts'
import { Places } from './places.ts'
import { Poll } from './poll.ts'
import { TurnPool } from './pool.ts'
import type { Turns } from './pool.ts'
import { followThere } from './recording.ts'
import { Runs } from './runs.ts'

/** What may stand in an address. */
const hostName = /^[\w.:[\]-]{1,255}$/

/** What became of what went on in a process that is gone. */
const interrupted: Progress = {
  status: 'failed',
  error: { code: 'task_interrupted', message: 'The gateway was restarted while it was at work.' }
}

/** What it works with. */
export interface BackgroundParts {
  services: Services
  generations: GenerationSource
  transport: Transport
  /** By name. */
  kinds: ReadonlyMap<string, WorkKind>
  log: Logger
  /** Of a worker: those of all threads. */
  turns?: Turns | undefined
}

/** All work of a process. */
export class BackgroundWork implements Background {
  /** Whose turn it is to go on without a client. */
  readonly turns: Turns
  readonly #works: Works
  readonly #generations: GenerationSource
  readonly #conclusions: Conclusions
  readonly #poll: Poll
  readonly #places: Places
  readonly #runs: Runs
  readonly #expiry: Expiry
  /** Goes on with work, once the store was handed over. */
  #heir: ((work: Work) => void) | undefined

  constructor({ services, generations, transport, kinds, log, turns }: BackgroundParts) {
    const { works } = services
    this.#works = works
    this.#generations = generations
    this.#conclusions = new Conclusions(services, generations, log)
    this.#poll = new Poll({ works, generations, transport, kinds, conclusions: this.#conclusions })
    this.#places = new Places(works)
    this.turns = turns ?? new TurnPool(() => this.#settings())
    this.#runs = new Runs(works, this.#conclusions, this.#places, () => this.#settings(), this.turns)
    this.#expiry = new Expiry(works, log)
  }

  /**
   * Takes up what was open when the last process ended. What went on in that process has ended with it, except for the
   * requests `elsewhere`, with which it goes on although it has handed over.
   */
  start(elsewhere: readonly string[] = []): void {
    const going = new Set(elsewhere)
    this.#heir = undefined
    this.#poll.open()
    for (const work of this.#works.open()) if (!going.has(work.requestId)) this.takeUp(work)
    this.#expiry.start()
  }

  /** Goes on with work of a process that is gone, or whose exchange has left it. */
  takeUp(work: Work): void {
    this.#conclusions.leave(work)
    const latest = this.#works.current(work, work.id)
    if (!latest) return
    const end = latest.seen ?? (latest.channel === null ? interrupted : undefined)
    if (!end) this.#goOn(latest)
    // What cannot be written now is found open by the next start.
    else this.#conclusions.end(latest, end).catch(() => {})
  }

  /** Leaves work to another process, whose exchange still follows it. */
  attendFor(work: Work): void {
    this.#conclusions.attendFor(work)
  }

  /** Asks no more. What is open stays open for the next start, or for `heir`, who is told of work to go on with. */
  close(heir?: (work: Work) => void): void {
    this.#heir = heir
    this.#expiry.close()
    this.#poll.close()
  }

  #goOn(work: Work): void {
    if (this.#heir) this.#heir(work)
    else this.#poll.add(work)
  }

  /** Exchanges that wait for their turn. */
  get waiting(): number {
    return this.#runs.waiting
  }

  admit(exchange: Exchange): Awaitable<void> {
    return this.#places.take(exchange, this.#settings())
  }

  begin(exchange: Exchange, begun: NewWork): Work {
    const work = this.#new(exchange, begun)
    // Its name is taken from now on, also while it is not on disk.
    this.#works.note(work)
    this.#places.leave(exchange)
    const keep = this.#takeOver(exchange, work)
    exchange.defer(keep)
    return work
  }

  attend(exchange: Exchange, begun: NewWork): AttendedWork {
    const work = this.#new(exchange, begun)
    this.#conclusions.attend(work)
    const detached = keepHold(exchange, work)
    const put = this.#works.put({ ...work, record: recordSoFar(exchange), costs: costsOf(exchange) })
    this.#places.leave(exchange)
    const kept = Promise.all([detached, put]).then(() => {})
    return {
      work,
      kept,
      end: async (progress) => {
        if (!this.#conclusions.leave(work)) return
        const counted = this.#works.current(work, work.id)?.seen?.usage
        // What others were told that the upstream had counted is more than its stream says.
        if (counted && !(progress.usage && progress.source === 'upstream')) await this.#takeOver(exchange, work)()
        else await this.#conclusions.end(work, progress, false, holdEnd(exchange))
      },
      handOver: async (delivered) => {
        if (this.#conclusions.leave(work)) await this.#takeOver(exchange, work, delivered)()
      }
    }
  }

  checkNew(exchange: Exchange, channel: Channel, upstreamId: string): void {
    // Two accounts may give one name, by which its owner could only ask for one of them.
    for (const other of [
      this.#works.at(accountOf(channel), upstreamId),
      this.#works.current(ownerOf(exchange), upstreamId)
    ]) {
      // What an attempt that failed has begun under this name is its own exchange's.
      if (other && other.requestId !== exchange.id)
        throw new GatewayError(
          'upstream_bad_response',
          'The upstream gave a name that it has given to something else which is under way.'
        )
    }
  }

  #new(exchange: Exchange, begun: NewWork): Work {
    if (begun.channel && begun.upstreamId !== null) this.checkNew(exchange, begun.channel, begun.upstreamId)
    return newWork(exchange, begun, this.#settings().deadline)
  }

  /**
   * From now on the exchange leaves its hold and its record alone. What is returned keeps both for the work, while the
   * exchange is being settled.
   */
  #takeOver(exchange: Exchange, work: Work, delivered?: Readonly<Usage>): () => Promise<void> {
    let record: RequestRecord | undefined
    exchange.set(goingOn, {
      keep: (kept) => {
        record = kept
      }
    })
    return async () => {
      const detached = keepHold(exchange, work)
      // When the plugins have been told, and the record is here: still in the same turn.
      const put = Promise.resolve().then(() => {
        const latest = this.#works.current(work, work.id) ?? work
        return this.#works.put({ ...latest, record: record ?? null, costs: costsOf(exchange), delivered })
      })
      try {
        await Promise.all([detached, put])
      } catch (error) {
        // It may be written all the same, and the upstream is at work on it.
        this.#goOn(work)
        throw error
      }
      const seen = this.#works.current(work, work.id)?.seen
      if (seen) await this.#conclusions.end(work, seen)
      else this.#goOn(work)
    }
  }

  /**
   * The exchange is to go on without its client: what the client is to be answered, when that is on disk.
   * @throws GatewayError `overloaded`, or what the request is refused with
   */
  async accept(exchange: LiveExchange, context: OperationContext): Promise<WholeReply> {
    const admitted = this.admit(exchange)
    if (admitted) await admitted
    return this.#runs.accept(exchange, context)
  }

  /** The client has been answered: takes its place, and resolves when it is the exchange's turn. */
  goOn(exchange: LiveExchange, watchdog: Watchdog): Promise<void> {
    return this.#runs.goOn(exchange, watchdog)
  }

  async follow(work: Work): Promise<AsyncIterable<Buffer> | undefined> {
    return this.#runs.follow(work) ?? followThere(work, this.#works)
  }

  tell(work: Work, from: number): Promise<Told | undefined> {
    return this.#runs.tell(work, from)
  }

  async refresh(work: Work): Promise<Work> {
    // How far an exchange is that goes on without its client, its work says.
    if (work.channel === null) return this.#latest(work)
    const elsewhere = this.#works.errand(work, 'refresh')
    if (elsewhere) return (await elsewhere) ?? this.#latest(work)
    if (isOpen(work)) await this.#poll.refresh(work)
    return this.#latest(work)
  }

  /** Does what another gateway or thread asks of work of this one. Resolves with the work as it is then. */
  async serve(work: Work, what: Errand, said?: unknown): Promise<Work> {
    if (what === 'saw') return this.saw(work, said)
    if (what === 'cancel') return this.cancel(work)
    if (what === 'refresh') return this.refresh(work)
    await this.stop(work)
    return this.#latest(work)
  }

  async saw(work: Work, body: unknown): Promise<Work> {
    const elsewhere = this.#works.errand(work, 'saw', body)
    if (elsewhere) return (await elsewhere) ?? this.#latest(work)
    await this.#poll.saw(work, body)
    return this.#latest(work)
  }

  async cancel(work: Work): Promise<Work> {
    const elsewhere = this.#works.errand(work, 'cancel')
    if (elsewhere) return (await elsewhere) ?? this.#latest(work)
    const latest = await this.refresh(work)
    if (!isOpen(latest)) return latest
    if (!(await this.#runs.cancel(work))) await this.#poll.callOff(latest)
    return this.#latest(work)
  }

  async remove(work: Work): Promise<void> {
    const ended = await this.cancel(work)
    if (isOpen(ended))
      throw new GatewayError(
        'task_under_way',
        'What is being made cannot be stopped: delete it when it has ended, which it will by itself.'
      )
    await this.#poll.tell(ended, 'forget')
    await this.#works.forget(ended)
  }

  async stop(work: Work): Promise<void> {
    const elsewhere = this.#works.errand(work, 'stop')
    if (elsewhere) return void (await elsewhere)
    const latest = await this.refresh(work)
    if (isOpen(latest)) await this.#poll.stop(latest)
  }

  address({ request: { headers } }: Exchange, path: string): string {
    const { listen, tasks } = this.#generations.current.config.settings
    if (tasks.baseUrl !== '') return `${tasks.baseUrl}${path}`
    const host = String(headers['host'] ?? headers[':authority'] ?? '')
    return hostName.test(host) ? `${listen.tls ? 'https' : 'http'}://${host}${path}` : path
  }

  #settings(): TaskSettings {
    return this.#generations.current.config.settings.tasks
  }

  async #latest(work: Work): Promise<Work> {
    return (await this.#works.find(work, work.id)) ?? work
  }
}
