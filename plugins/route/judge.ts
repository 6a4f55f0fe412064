// Tells the health of channels what became of the attempts at them: of each once, as soon as it is known to be over.
import type { Attempt, AttemptFailure, Exchange, PluginContext } from '../../core/contract/contract.ts'
import { slot } from '../../core/contract/slots.ts'
import type { States } from './board.ts'
import type { ChannelState } from './health.ts'

/** How many attempts of the exchange the health of their channels has heard of. */
const judged = slot('route/judged').of<{ count: number }>()

/** One per generation. */
export class Judge {
  readonly #states: States
  readonly #ejectAfter: number
  readonly #log: PluginContext['log']
  readonly #tries
  readonly #ejections

  /** `ejectAfter`: failures in a row after which a channel is left out. */
  constructor(states: States, ejectAfter: number, { log, metrics }: Pick<PluginContext, 'log' | 'metrics'>) {
    this.#states = states
    this.#ejectAfter = ejectAfter
    this.#log = log
    this.#tries = metrics.counter({
      name: 'attempts_total',
      help: 'Attempts at channels, by how they ended.',
      labels: ['channel', 'code']
    })
    this.#ejections = metrics.counter({
      name: 'channel_ejections_total',
      help: 'Times a channel was left out for its failures.',
      labels: ['channel']
    })
  }

  /** Before another channel is chosen. */
  failed(exchange: Exchange, failures: readonly AttemptFailure[]): void {
    let done = exchange.find(judged)
    if (!done) exchange.set(judged, (done = { count: 0 }))
    while (done.count < failures.length) this.#judge(failures[done.count++]!.attempt)
  }

  /** When the exchange is over. */
  settled(exchange: Exchange): void {
    const { attempts } = exchange
    for (let i = exchange.find(judged)?.count ?? 0; i < attempts.length; i++) this.#judge(attempts[i]!)
  }

  #judge(attempt: Attempt): void {
    const { channel, error, endedAt } = attempt
    const state = this.#states.get(channel)!
    // What failed takes a channel out from now on, and what is under way is told from what comes then.
    const now = error || endedAt === undefined ? performance.now() : endedAt
    this.#tries.add({ channel: channel.name, code: error?.code ?? 'ok' })
    if (!this.#tell(state, attempt, now)) return
    this.#ejections.add({ channel: channel.name })
    this.#log.warn('a channel is left out', {
      channel: channel.name,
      ms: Math.round(state.until - now),
      code: error?.code
    })
  }

  /** True when the channel is out because of it. */
  #tell(state: ChannelState, { channel, error, startedAt, status }: Attempt, now: number): boolean {
    if (error?.code === 'upstream_auth_failed') {
      this.#log.error('a channel refused our credential', {
        channel: channel.name,
        status,
        hint: `check channels.${channel.name}.credential in gateway.yaml; a reload with a new one puts the channel back at once`
      })
      return state.refused(now, startedAt)
    }
    if (error?.code === 'upstream_rate_limited') state.cool(now, error.details.retryAfterMs)
    // What the client sent was wrong, and a working channel said so.
    else if (error?.code === 'upstream_rejected' || (!error && status !== undefined)) state.succeeded(now, startedAt)
    else if (error?.source !== 'upstream') state.undecided(now, startedAt)
    else if (state.failed(now, startedAt, this.#ejectAfter)) return true
    else if (error.details.retryAfterMs !== undefined) state.cool(now, error.details.retryAfterMs)
    return false
  }
}
