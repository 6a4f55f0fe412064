// The routes of channels: list them with their health, switch them, and try them. They never show a credential.
import type { Channel } from '../../catalogue/catalogue.ts'
import type { LimitLeft } from '../../contract/contract.ts'
import { GatewayError } from '../../errors.ts'
import { formatDollars } from '../../money/money.ts'
import { suggestion } from '../../options/suggest.ts'
import { channelExpiryOf } from '../../program/expiries.ts'
import { switchDocuments } from '../../program/channel-switches.ts'
import type { StoredSwitch } from '../../program/channel-switches.ts'
import type { ProbeResult } from '../../program/probe.ts'
import { probedEndpoints } from '../../program/probe-requests.ts'
import { changeOf } from '../../store/documents.ts'
import { auditEntry } from '../api/audit.ts'
import type { AdminParts, Answer, Call, Health } from '../api/contract.ts'
import { conflict, readEntry, showTime } from '../api/entry.ts'
import { invalidField, pageOf, sentence, shown } from '../api/query.ts'

/** What a channel is switched with. Both absent or null: whatever an operator switched is undone. */
export const switchFields = {
  enabled: { type: 'boolean', description: 'false: no request of a client is sent there.' },
  drain: { type: 'boolean', description: 'true: nothing new is sent there.' }
} as const

/** What a channel is tried with. */
export const testFields = {
  model: {
    type: 'string',
    description: 'One of its models; by default one for each endpoint that they look to be for.'
  },
  endpoint: {
    type: 'string',
    enum: probedEndpoints,
    description: 'The endpoint to try; by default the one that the model looks to be for.'
  }
} as const

/** Lists the channels. `health` is null when no plugin of the chain reports it. */
export function listChannels({ query }: Call, parts: AdminParts): Answer {
  const { config } = parts.generations.current
  const { data, next } = pageOf([...config.channels.values()], ({ name }) => name, query)
  const health = healthIn(parts)
  return { json: { data: data.map((channel) => show(channel, parts, health)), next } }
}

/** Shows one channel. */
export function showChannel({ names }: Call, parts: AdminParts): Answer {
  return { json: show(channelOf(names['channel']!, parts), parts, healthIn(parts)) }
}

/**
 * Switches a channel off, lets it drain, or undoes that. It is kept over restarts, until it is undone. What the file
 * switches is changed there.
 */
export async function switchChannel({ names, json, by }: Call, parts: AdminParts): Promise<Answer> {
  const { documents } = parts.store
  const request = await json()
  const channel = channelOf(names['channel']!, parts)
  const { name } = channel
  const given = Object.fromEntries(Object.entries(Object(request)).filter(([, value]) => value !== null))
  const { enabled, drain } = readEntry(
    switchFields,
    [],
    Array.isArray(request) ? request : given,
    '{"drain": true}'
  ).value
  const to = enabled === false ? 'off' : drain === true ? 'draining' : 'on'
  if (to === 'on' && channel.switch !== 'on' && (enabled === true || drain === false))
    throw conflict(
      'channel_read_only',
      `The file itself has ${channelPath(name)} ${channel.switch}: change it there.`,
      'channel'
    )
  const before = documents.find(switchDocuments, name)
  if ((before?.to ?? 'on') !== to) {
    const stored: StoredSwitch | null = to === 'on' ? null : { name, to, since: Date.now(), by: by.id }
    const state = (one: StoredSwitch | null | undefined): object => ({ switched: one?.to ?? 'on' })
    const entry = auditEntry(by, 'channel.switch', { kind: 'channel', id: name }, state(before), state(stored))
    await documents.change([changeOf(switchDocuments, name, stored)], entry)
    parts.log.warn('a channel was switched', { channel: name, to, by: by.id })
  }
  return { json: show(channel, parts, healthIn(parts)) }
}

/** Tries a channel with small real requests, one after another, also when it is switched off. Nobody is charged. */
export async function testChannel({ names, json, by }: Call, parts: AdminParts): Promise<Answer> {
  const { model, endpoint } = readEntry(testFields, [], await json(), '{"model": "gpt-5"}').value
  const channel = channelOf(names['channel']!, parts)
  if (model !== undefined && !channel.models.has(model))
    throw invalidField(
      'model',
      `${channelPath(channel.name)} has no model ${shown(model)}${suggestion(model, [...channel.models.keys()])}`
    )
  const results = await parts.prober.test(channel, model, endpoint)
  parts.log.info('a channel was tried', { channel: channel.name, by: by.id })
  return { json: { channel: channel.name, results: results.map(showResult) } }
}

/** The result of one request as it is shown. */
export interface ShownResult extends Pick<ProbeResult, 'endpoint' | 'model' | 'ok' | 'status' | 'error' | 'usage'> {
  readonly first_byte_ms: number | null
  readonly duration_ms: number
  readonly cost_usd: string | null
  readonly cost_nano: string | null
}

/** Shows the result of one request. */
export function showResult({
  endpoint,
  model,
  ok,
  status,
  error,
  firstByteMs,
  durationMs,
  usage,
  cost
}: ProbeResult): ShownResult {
  const tenths = (ms: number): number => Math.round(ms * 10) / 10
  return {
    endpoint,
    model,
    ok,
    status,
    error,
    first_byte_ms: firstByteMs === null ? null : tenths(firstByteMs),
    duration_ms: tenths(durationMs),
    usage,
    cost_usd: cost === null ? null : formatDollars(cost),
    cost_nano: cost === null ? null : String(cost)
  }
}

function channelPath(name: string): string {
  return `channels.${name}`
}

function channelOf(name: string, { generations }: AdminParts): Channel {
  const { channels } = generations.current.config
  const channel = channels.get(name)
  if (channel) return channel
  const message = sentence(`There is no channel ${shown(name)}${suggestion(name, [...channels.keys()])}`)
  throw new GatewayError('route_not_found', message, { shownCode: 'channel_not_found', param: 'channel' })
}

/** The health of all channels; empty when no plugin of the chain tells it. */
export function healthIn({ generations, workers }: Pick<AdminParts, 'generations' | 'workers'>): Health {
  const own = generations.current.chain.reportHealth()
  return workers?.health(own) ?? own
}

/** What a channel is switched to; where it is on, its health. */
export function stateOf(channel: Channel, { generations }: Pick<AdminParts, 'generations'>, health: Health): string {
  return generations.current.catalogue.switched.get(channel) ?? health[channel.name]?.state ?? 'healthy'
}

function showLimit(limit: LimitLeft): object {
  return { ...limit, resets: showTime(limit.resets ?? undefined) }
}

function show(channel: Channel, { generations, store }: AdminParts, allHealth: Health): object {
  const { config } = generations.current
  const { name, protocol, baseUrl, endpoints, models, priority, weight } = channel
  const health = allHealth[name]
  const stored = store.documents.find(switchDocuments, name)
  return {
    name,
    protocol: config.simulated.includes(name) ? 'simulator' : protocol,
    // The query of the address is left out, because it may have a credential.
    base_url: baseUrl.origin + baseUrl.pathname,
    private: channel.private,
    credential_expires: showTime(channelExpiryOf(channel)),
    endpoints: [...endpoints],
    models: Object.fromEntries(models),
    priority,
    weight,
    state: stateOf(channel, { generations }, allHealth),
    switched: {
      file: channel.switch,
      operator: stored?.to ?? 'on',
      since: showTime(stored?.since),
      by: stored?.by ?? null
    },
    health: health
      ? {
          ...health,
          since: showTime(health.since ?? undefined),
          until: showTime(health.until ?? undefined),
          limits: (health.limits ?? []).map(showLimit),
          credentials: (health.credentials ?? []).map((one) => ({
            ...one,
            since: showTime(one.since ?? undefined),
            until: showTime(one.until ?? undefined),
            limits: one.limits.map(showLimit)
          }))
        }
      : null
  }
}
