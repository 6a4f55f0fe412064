// Reports the result of every attempt to the health of its channel, once and as soon as the attempt is over.
import { toldLimits } from '../../core/contract/contract.ts'
import type { Attempt, Exchange, GatewayError, PluginContext } from '../../core/contract/contract.ts'
import { caller, slot } from '../../core/contract/slots.ts'
import type { States } from './board.ts'
import type { Standing } from './standing.ts'

/** How many attempts of the exchange were already reported. */
const judged = slot('route/judged').of<{ count: number }>()

/**
 * Failures that say something of a credential and nothing of its channel: with another one, the same channel may do
 * what was asked.
 */
const ofCredentials: ReadonlySet<string> = new Set([
  'upstream_rate_limited',
  'upstream_auth_failed',
  'upstream_model_missing',
  'upstream_credential_unavailable'
])

/** Whether another credential of the same channel may succeed where one has failed. */
export function isOfCredential({ code }: GatewayError): boolean {
  return ofCredentials.has(code)
}

/** One per generation. */
export class Judge {
  readonly #states: States
  readonly #ejectAfter: number
  readonly #log: PluginContext['log']
  readonly #tries
  readonly #seconds
  readonly #ejections
  readonly #uses
  /** The channels and models that were found to be missing, at most as many as the file has. */
  readonly #missing = new Set<string>()

  /** `ejectAfter`: the number of failures in a row after which a channel is ejected. */
  constructor(states: States, ejectAfter: number, { log, metrics }: Pick<PluginContext, 'log' | 'metrics'>) {
    this.#states = states
    this.#ejectAfter = ejectAfter
    this.#log = log
    this.#tries = metrics.counter({
      name: 'attempts_total',
      help: 'Attempts at channels, by how they ended and with which code.',
      labels: ['channel', 'outcome', 'code']
    })
    this.#seconds = metrics.histogram({
      name: 'attempt_seconds',
      help: 'From the start of an attempt at a channel to the end of its answer.',
      labels: ['channel', 'outcome'],
      buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]
    })
    this.#ejections = metrics.counter({
      name: 'channel_ejections_total',
      help: 'Times a channel was left out for its failures.',
      labels: ['channel']
    })
    this.#uses = metrics.counter({
      name: 'credential_attempts_total',
      help: 'Attempts by each credential of a channel that has several, by how they ended.',
      labels: ['channel', 'credential', 'outcome']
    })
  }

  /** Called when the head of an answer was accepted: a probe has succeeded, and the upstream may tell what is left. */
  answered(attempt: Attempt): void {
    const { channel, startedAt } = attempt
    const standing = this.#states.get(channel)!
    const [seat] = standing.seats
    const { health } = standing
    if (!health.healthy) health.answered(performance.now(), startedAt)
    if (seat!.health !== health && !seat!.health.healthy) seat!.health.answered(performance.now(), startedAt)
    this.#learn(standing, attempt)
  }

  #learn({ seats }: Standing, { answered, model }: Attempt): void {
    const told = answered ? toldLimits(answered) : []
    if (told.length > 0) seats[0]!.learn(model, told, performance.now())
  }

  /** Called before another channel is chosen. */
  failed(exchange: Exchange): void {
    let done = exchange.find(judged)
    if (!done) exchange.set(judged, (done = { count: 0 }))
    const { attempts } = exchange
    while (done.count < attempts.length) this.#judge(attempts[done.count++]!, exchange)
  }

  /** Called when the exchange is over. */
  settled(exchange: Exchange): void {
    const { attempts } = exchange
    for (let i = exchange.find(judged)?.count ?? 0; i < attempts.length; i++) this.#judge(attempts[i]!, exchange)
  }

  #judge(attempt: Attempt, exchange: Exchange): void {
    const { channel, error, endedAt } = attempt
    const standing = this.#states.get(channel)!
    const { health } = standing
    // A failure ejects the channel from now on. An answer still under way is judged now, by what has come so far.
    const now = error || endedAt === undefined ? performance.now() : endedAt
    const outcome = outcomeOf(attempt)
    this.#tries.add({ channel: channel.name, outcome, code: error?.code ?? 'ok' })
    this.#seconds.observe({ channel: channel.name, outcome }, (now - attempt.startedAt) / 1000)
    if (channel.credentialName !== undefined)
      this.#uses.add({ channel: channel.name, credential: channel.credentialName, outcome })
    if (outcome !== 'undecided') health.pace.note(attempt, now, exchange.streaming, outcome === 'failed')
    // The head of an answer that was accepted has told already.
    if (attempt.status !== undefined && attempt.status >= 400) this.#learn(standing, attempt)
    if (!this.#tell(standing, attempt, now, keyOf(exchange))) return
    // What became of a credential is no ejection of its channel.
    const out = health.available(now) ? standing.seats[0]!.health : health
    if (out === health) this.#ejections.add({ channel: channel.name })
    this.#log.warn(out === health ? 'a channel is left out' : 'a credential of a channel is left out', {
      channel: channel.name,
      ...(out !== health && { credential: channel.credentialName }),
      ms: Math.round(out.until - now),
      code: error?.code
    })
  }

  /**
   * True when the channel or the credential is ejected because of this attempt. What concerns the account concerns the
   * credential alone; what a channel with one credential is told, it is told once.
   */
  #tell(standing: Standing, attempt: Attempt, now: number, key: string): boolean {
    const { error, startedAt, status } = attempt
    const { health } = standing
    const own = standing.seats[0]!.health
    const several = own !== health
    if (error && several && isOfCredential(error)) health.undecided(now, startedAt)
    if (error?.code === 'upstream_auth_failed') return this.#refused(standing, attempt, now, key)
    if (error?.code === 'upstream_rate_limited') own.cool(now, error.details.retryAfterMs)
    // The client's request was wrong, and a working channel said so.
    else if (error?.code === 'upstream_rejected' || (!error && status !== undefined)) {
      health.succeeded(now, startedAt)
      if (several) own.succeeded(now, startedAt)
    } else if (error?.code === 'upstream_model_missing') {
      this.#tellOfModel(attempt)
      own.undecided(now, startedAt)
    } else if (error?.code === 'upstream_credential_unavailable' && several) own.cool(now, error.details.retryAfterMs)
    else {
      if (several) own.undecided(now, startedAt)
      if (error?.source !== 'upstream') health.undecided(now, startedAt)
      else if (health.failed(now, startedAt, this.#ejectAfter, howOf(attempt))) return true
      else if (error.details.retryAfterMs !== undefined) health.cool(now, error.details.retryAfterMs)
    }
    return false
  }

  /** A fault of the account concerns all requests. For any other refusal, it is unknown whose fault it is. */
  #refused(standing: Standing, { channel, error, startedAt, status }: Attempt, now: number, key: string): boolean {
    const state = standing.seats[0]!.health
    const { credentialName: credential } = channel
    const said = saidIn(error)
    if (!error?.details.account) {
      this.#log.warn('a channel refused a request, and did not say whose fault it is', {
        channel: channel.name,
        ...(credential !== undefined && { credential }),
        status,
        said
      })
      return state.doubted(now, startedAt, key)
    }
    this.#log.error('a channel refused our credential', {
      channel: channel.name,
      ...(credential !== undefined && { credential }),
      status,
      said,
      hint:
        credential === undefined
          ? `check channels.${channel.name}.credential in gateway.yaml, and the account that it is of; a reload with a new one puts the channel back at once`
          : `check ${credential} in channels.${channel.name}.credentials in gateway.yaml, and the account that it is of; the others are used, and a reload with a new one uses it at once`
    })
    return state.refused(now, startedAt)
  }

  /** Logged once per model of a channel, because every request for the model would say the same. */
  #tellOfModel({ channel, upstreamModel, error, status }: Attempt): void {
    // Names that fit a pattern are the clients' own.
    if (![...channel.models.values()].includes(upstreamModel)) return
    const model = `${channel.name} ${upstreamModel}`
    if (this.#missing.has(model)) return
    this.#missing.add(model)
    this.#log.error('a channel does not have a model', {
      channel: channel.name,
      model: upstreamModel,
      status,
      said: saidIn(error),
      hint: `check channels.${channel.name}.models and .base_url in gateway.yaml`
    })
  }
}

/**
 * How an attempt ended. `answered`: well. `rejected`: with the upstream's word that the request is wrong. `failed`:
 * because of the upstream. `undecided`: for another reason, for instance because the client left.
 */
function outcomeOf({ error, status }: Attempt): 'answered' | 'rejected' | 'failed' | 'undecided' {
  if (error?.code === 'upstream_rejected') return 'rejected'
  if (error) return error.source === 'upstream' ? 'failed' : 'undecided'
  return status === undefined ? 'undecided' : 'answered'
}

/** How an attempt failed, in a few words. */
function howOf({ error, status }: Attempt): string {
  return status === undefined || status < 400 ? error!.code : `${error!.code} (status ${status})`
}

/** The name of the key; without `auth` in the chain, all requests count as one key's. */
function keyOf(exchange: Exchange): string {
  return exchange.find(caller)?.key ?? ''
}

/** What an upstream said in its error, without secrets, for the log. Clients are not told. */
function saidIn(error: GatewayError | undefined): string | undefined {
  const cause = error?.details.cause
  return cause instanceof Error ? cause.message : undefined
}
