// Writes down how the channel of an exchange was chosen: which were left out and why, and the order of the others.
import type { Channel } from '../catalogue/catalogue.ts'
import type { GatewayError } from '../errors.ts'
import type { CandidateRecord, DecisionRecord, ExclusionRecord, LeftModelRecord } from '../store/requests.ts'
import type { Candidates, Exclusion } from './candidates.ts'
import type { Exchange } from './exchange.ts'
import { refusedModels } from './slots.ts'

/** The most channels of either list. A record must not grow with the file. */
const mostChannels = 32

/**
 * The decision of an exchange for its record; undefined when there is nothing to tell: the first channel was taken, and
 * none was left out.
 */
export function decisionOf(exchange: Exchange): DecisionRecord | undefined {
  const { candidates, attempts, passed } = exchange
  if (!candidates) return undefined
  const refused = exchange.find(refusedModels)
  if (passed.length > 0 || refused) {
    const asked = attempts.map(({ channel }) => channel)
    const left = [
      ...[...(refused ?? [])].map(([model, error]) => leftRecord(model, error)),
      ...passed.map(({ candidates: { model }, error }) => leftRecord(model!.name, error))
    ]
    return { ...describe(candidates, asked), models: left }
  }
  const { excluded, passedOver, stopped } = candidates
  if (attempts.length > 1 || passedOver.size > 0 || stopped !== undefined || !candidates.untouched) {
    return describe(
      candidates,
      attempts.map(({ channel }) => channel)
    )
  }
  if (excluded.length === 0) return undefined
  // Channels that never serve the endpoint are the same for all requests like this one.
  let decision = known.get(excluded)
  if (!decision) known.set(excluded, (decision = describe(candidates)))
  return decision
}

function leftRecord(model: string, error: GatewayError): LeftModelRecord {
  const { code, details } = error
  const what = details.said?.message ?? (details.reason && 'what' in details.reason ? details.reason.what : undefined)
  return { model, code, reason: (what ?? error.message).slice(0, longestReason) }
}

/** The most characters of a reason. */
const longestReason = 300

/** The decisions of requests for which nothing but the configuration decided, by their exclusions. */
const known = new WeakMap<readonly Exclusion[], DecisionRecord>()

/** All that is known of the candidates. `asked`: the channels that were tried. */
export function describe(candidates: Candidates, asked: readonly Channel[] = []): DecisionRecord {
  const { channels, excluded, passedOver, stopped } = candidates
  // When all are passed over, any of them may be chosen.
  const all = channels.every((channel) => passedOver.has(channel))
  const isAsked = (channel: Channel): boolean =>
    asked.some((one) => one === channel || channel.byCredential?.includes(one))
  const isLeftOut = (channel: Channel): boolean => !all && passedOver.has(channel) && !isAsked(channel)
  const order = channels.filter((channel) => !isLeftOut(channel))
  const credentials = [...passedOver.values()].filter(
    ({ channel }) => channel.credentialName !== undefined && !channels.includes(channel) && !asked.includes(channel)
  )
  const out = [...excluded, ...channels.filter(isLeftOut).map((channel) => passedOver.get(channel)!), ...credentials]
  const omitted = Math.max(0, order.length - mostChannels) + Math.max(0, out.length - mostChannels)
  return {
    order: order.slice(0, mostChannels).map((channel) => candidateRecord(candidates, channel)),
    excluded: out.slice(0, mostChannels).map(exclusionRecord),
    ...(stopped !== undefined && { stopped }),
    ...(omitted > 0 && { omitted })
  }
}

function candidateRecord(candidates: Candidates, channel: Channel): CandidateRecord {
  const { name, weight } = channel
  const health = candidates.passedOver.get(channel)
  return { channel: name, rank: candidates.rank(channel), weight, ...(health && { health: whyRecord(health) }) }
}

function exclusionRecord({ channel, by, ...why }: Exclusion): ExclusionRecord {
  const { name, credentialName } = channel
  return { channel: name, ...(credentialName !== undefined && { credential: credentialName }), by, ...whyRecord(why) }
}

function whyRecord({
  code,
  reason,
  until
}: Pick<Exclusion, 'code' | 'reason' | 'until'>): CandidateRecord['health'] & object {
  return { code, reason, ...(until !== undefined && { until: new Date(until).toISOString() }) }
}
