// Shows what would become of a request: who asks, what limits it, where it would go and what it would cost.
import type { Caller } from '../../catalogue/caller.ts'
import type { Channel } from '../../catalogue/catalogue.ts'
import { describe } from '../../contract/decision.ts'
import type { BudgetStanding, ChannelHealth, LimitStanding, Quote, Standing } from '../../contract/contract.ts'
import { modelsFor } from '../../contract/stand-ins.ts'
import { caller, dropped, quote } from '../../contract/slots.ts'
import type { GatewayError, Reason } from '../../errors.ts'
import type { Generation } from '../../exchange/state/generation.ts'
import type { Rehearsed } from '../../exchange/rehearsal/rehearse.ts'
import type { ShownRequest } from '../../exchange/rehearsal/shown-request.ts'
import { statusFor } from '../../exchange/replies.ts'
import { formatDollars } from '../../money/money.ts'
import type { CandidateRecord, ExclusionRecord } from '../../store/requests.ts'

/** An explanation. Its members are the public format of the admin API; what there is not is null. */
export interface Explanation {
  /**
   * `sent`: to `upstream`. `answered`: by the gateway, or by the plugin of `answered_by`. `refused`: with `refusal`.
   * `kept`: it goes to where what it names is kept, which is not looked up. `undecided`: nobody chooses a channel in
   * explanations.
   */
  outcome: 'sent' | 'answered' | 'refused' | 'kept' | 'undecided'
  request: {
    method: string
    path: string
    endpoint: string
    client_protocol: string
    model: string | null
    requested_model: string | null
    streamed: boolean
  }
  caller: { key: string; tenant: string; project: string | null; member: string | null; expires: string | null } | null
  answered_by: string | null
  refusal: ShownRefusal | null
  budgets: BudgetStanding[]
  limits: LimitStanding[]
  held: ShownQuote | null
  /**
   * The channels in the order in which they would be tried, also for a request that is refused for something else. Null
   * when it is of no model that its caller may use.
   */
  order: ShownCandidate[] | null
  /** The models that may answer, in order; null where it is the one that was asked for. */
  models: string[] | null
  excluded: ExclusionRecord[] | null
  upstream: ShownRequest | null
  dropped: readonly string[]
  /** Plugins that take no part in explanations: they may refuse or change a real request. */
  skipped_plugins: readonly string[]
  /** Only where several workers serve: they may see channels differently. */
  workers?: ExplainingWorkers
}

/** What actors of one tenant are not shown: channels, what is sent to them, and which plugins there are. */
export const hiddenOfExplanations = [
  'answered_by',
  'order',
  'models',
  'excluded',
  'upstream',
  'skipped_plugins',
  'workers'
] as const

/** An explanation as whoever asked is shown it. */
export type ShownExplanation = Omit<Explanation, (typeof hiddenOfExplanations)[number]> &
  Partial<Pick<Explanation, (typeof hiddenOfExplanations)[number]>>

/** Which workers would do what, by their numbers. */
export interface ExplainingWorkers {
  /** As is shown. */
  readonly alike: readonly number[]
  /** Otherwise: they think better of some channel. */
  readonly otherwise: readonly number[]
  /** They have not answered. */
  readonly missing: readonly number[]
}

interface ShownRefusal {
  status: number
  code: string
  type: string
  message: string
  param: string | null
  retry_after_ms: number | null
  reason: Reason | null
}

/** The most that a request can cost: units of what is counted, at the dearest price that they may have. */
export interface ShownQuote {
  usd: string
  nano: string
  price_version: string
  lines: { counted: string; units: number; usd_per_million: string }[]
  max_output: number | null
}

/** A channel that may be asked. */
export interface ShownCandidate extends Omit<CandidateRecord, 'health'> {
  /** Null when no plugin of the chain tells it. */
  health: { state: string; reason: string | null; until: string | null } | null
}

/** The explanation of what was found out about a request. */
export async function explanationOf({ exchange, generation, skipped, outcome }: Rehearsed): Promise<Explanation> {
  const { request, model, requestedModel, streaming } = exchange
  const { method, path, operation } = request
  const who = exchange.find(caller)
  const standings = who ? await standingsOf(generation, who, model) : []
  const held = exchange.find(quote)
  const attempt = outcome.kind === 'sent' ? outcome.attempt : undefined
  return {
    outcome: outcome.kind,
    request: {
      method,
      path,
      endpoint: operation.name,
      client_protocol: operation.protocol,
      model: model === '' ? null : model,
      requested_model: requestedModel === model ? null : requestedModel,
      streamed: streaming
    },
    caller: who
      ? {
          key: who.key,
          tenant: who.tenant,
          project: who.project ?? null,
          member: who.member ?? null,
          expires: who.expires === undefined ? null : new Date(who.expires).toISOString()
        }
      : null,
    answered_by: outcome.kind === 'answered' ? outcome.by : null,
    refusal: outcome.kind === 'refused' ? showRefusal(outcome.error, statusFor(exchange, outcome.error)) : null,
    budgets: standings.filter((one) => one.by === 'budget'),
    limits: standings.filter((one) => one.by === 'limit'),
    held: held ? showQuote(held) : null,
    ...channelsOf({ exchange, generation }),
    upstream: outcome.kind === 'sent' ? outcome.upstream : null,
    dropped: (attempt && exchange.find(dropped)?.get(attempt)) ?? [],
    skipped_plugins: skipped
  }
}

async function standingsOf({ chain }: Generation, who: Caller, model: string): Promise<Standing[]> {
  const standings: Standing[] = []
  for (const { call } of chain.reportStandings) standings.push(...(await call(who, model)))
  return standings
}

function channelsOf({
  exchange,
  generation
}: Pick<Rehearsed, 'exchange' | 'generation'>): Pick<Explanation, 'order' | 'excluded' | 'models'> {
  const { candidates, model } = exchange
  if (!candidates) return { order: null, excluded: null, models: null }
  const { order, excluded } = describe(candidates)
  const { channels, models } = generation.catalogue
  const health = generation.chain.reportHealth()
  const asked = candidates.model ?? models.get(model)
  const own = asked?.channels ?? [...channels.values()]
  const standIns = models.get(model)?.standIns && modelsFor(exchange, generation.catalogue)
  const others = [...channels.values()].filter((channel) => !own.includes(channel))
  return {
    order: order.map((candidate) => ({ ...candidate, health: showHealth(health[candidate.channel]) })),
    excluded: [...excluded, ...others.map((channel) => withoutModel(channel, asked?.name ?? model))],
    models: standIns?.map(({ name }) => name) ?? null
  }
}

function withoutModel({ name }: Channel, model: string): ExclusionRecord {
  return { channel: name, by: 'gateway', code: 'model', reason: `channels.${name}.models does not have ${model}` }
}

function showHealth(health: ChannelHealth | undefined): ShownCandidate['health'] {
  if (!health) return null
  const { state, reason, until } = health
  return { state, reason, until: until === null ? null : new Date(until).toISOString() }
}

function showRefusal({ code, type, message, details }: GatewayError, status: number): ShownRefusal {
  const { shownCode, param = null, retryAfterMs = null, reason = null } = details
  return { status, code: shownCode ?? code, type, message, param, retry_after_ms: retryAfterMs, reason }
}

function showQuote({ amount, priceVersion, lines, maxOutput }: Quote): ShownQuote {
  return {
    usd: formatDollars(amount),
    nano: String(amount),
    price_version: priceVersion,
    lines: lines.map(({ counter, units, perMillion }) => ({
      counted: counter,
      units,
      usd_per_million: formatDollars(perMillion)
    })),
    max_output: maxOutput ?? null
  }
}
