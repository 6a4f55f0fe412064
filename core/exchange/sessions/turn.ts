// A turn of a session: its state, which plugins see, and the releases that they have registered.
import type { Turn } from '../../contract/turn.ts'
import type { MeteredUsage } from '../../contract/slots.ts'
import type { ReportedUsage } from '../../protocols/index.ts'
import type { LiveExchange } from '../state/exchange.ts'
import { checkSynchronous } from '../../contract/synchronous.ts'
import type { SharedTurn } from '../state/plugin-view.ts'
import { GatewayError } from '../../errors.ts'
import { thrownText } from '../../thrown.ts'

/** One per turn. Made when the client asks for it, or when the upstream reports one that nobody asked for. */
export class LiveTurn implements SharedTurn {
  /** The upstream's, once it has begun. */
  id = ''
  begun = false
  ended = false
  abandoned = false
  reported: ReportedUsage = undefined
  output = 0
  usage: MeteredUsage | undefined = undefined
  readonly part: string
  readonly asked: boolean
  readonly input: Turn['input']
  readonly maxOutput: number | undefined
  /** The client's name for the event that asked for it. */
  readonly event: string | undefined
  readonly #exchange: LiveExchange
  readonly #awaited: Promise<void>[] = []
  readonly #followers: ((output: number) => void)[] = []
  readonly #measures: { plugin: string; count: Parameters<Turn['measure']>[0] }[] = []
  readonly #releases: { plugin: string; call: Parameters<Turn['defer']>[0] }[] = []
  #released = false
  #admission: Promise<void> | undefined

  constructor(
    exchange: LiveExchange,
    part: string,
    about: Pick<Turn, 'asked' | 'input' | 'maxOutput'>,
    event?: string
  ) {
    this.#exchange = exchange
    this.part = part
    this.asked = about.asked
    this.input = about.input
    this.maxOutput = about.maxOutput
    this.event = event
  }

  showAfter(durable: Promise<void>): void {
    this.#awaited.push(durable)
    // It is awaited later; until then a rejection must not count as unhandled.
    durable.catch(ignore)
  }

  follow(told: (output: number) => void): void {
    this.#followers.push(told)
  }

  /** Tells the followers how many tokens of output have come in all. */
  progress(output: number): void {
    for (const told of this.#followers) checkSynchronous(told(output), 'what follows a turn')
  }

  measure(count: Parameters<Turn['measure']>[0]): void {
    this.measureFor('', count)
  }

  measureFor(plugin: string, count: Parameters<Turn['measure']>[0]): void {
    this.#measures.push({ plugin, count })
    if (this.#released) void this.giveBack()
  }

  defer(call: Parameters<Turn['defer']>[0]): void {
    this.deferFor('', call)
  }

  deferFor(plugin: string, call: Parameters<Turn['defer']>[0]): void {
    this.#releases.push({ plugin, call })
    // The session ended while the turn was being admitted.
    if (this.#released) void this.giveBack()
  }

  /** Resolves when the first frame of the turn may be shown; undefined when it may be shown at once. */
  get held(): Promise<unknown> | undefined {
    return this.#awaited.length === 0 ? undefined : Promise.all(this.#awaited)
  }

  /** Until this is over, plugins may still register releases; the turn is given back after it. It never rejects. */
  get admission(): Promise<void> | undefined {
    return this.#admission
  }

  set admission(asked: Promise<unknown>) {
    const over = (): void => {
      this.#admission = undefined
    }
    this.#admission = asked.then(over, over)
  }

  /**
   * Measures the turn, and then runs all releases, the newest first. The promise is of what the end of the turn waits
   * for, if there is anything; it rejects with what a release threw on purpose. Mistakes are logged. Once.
   */
  giveBack(): Promise<void> | undefined {
    return this.#admission ? this.#admission.then(() => this.#giveBack()) : this.#giveBack()
  }

  #giveBack(): Promise<void> | undefined {
    const exchange = this.#exchange
    const dues: Promise<void>[] = []
    this.#released = true
    for (const { plugin, count } of this.#measures.splice(0)) {
      try {
        checkSynchronous(count(this), 'what measures a turn')
      } catch (error) {
        exchange.complain('a turn could not be measured', { plugin, error: thrownText(error) })
      }
    }
    for (const { plugin, call } of this.#releases.splice(0).reverse()) {
      const told = (error: unknown): void => {
        if (error instanceof GatewayError) throw error
        exchange.complain('a release failed', { plugin, error: thrownText(error) })
      }
      try {
        const due = call(this)
        if (due) dues.push(due.catch(told))
      } catch (error) {
        dues.push(Promise.reject(error).catch(told))
      }
    }
    if (dues.length === 0) return undefined
    const all = Promise.all(dues).then(ignore)
    all.catch(ignore)
    return all
  }
}

function ignore(): void {}
