// The route of channels: lists them with their health, and never shows a credential.
import type { Channel } from '../catalogue/catalogue.ts'
import type { ChannelHealth } from '../contract/contract.ts'
import type { AdminParts, Answer, Call } from './contract.ts'
import { pageOf } from './query.ts'

/** Lists the channels. `health` is null when no plugin of the chain reports it. */
export function listChannels({ query }: Call, { generations }: AdminParts): Answer {
  const { config, chain } = generations.current
  const { channels, simulated } = config
  const health = new Map(Object.entries(chain.reportHealth?.call() ?? {}))
  const { data, next } = pageOf([...channels.values()], ({ name }) => name, query)
  return {
    json: {
      data: data.map((channel) => show(channel, simulated.includes(channel.name), health.get(channel.name))),
      next
    }
  }
}

function show(channel: Channel, simulated: boolean, health: ChannelHealth | undefined): object {
  const { name, protocol, baseUrl, endpoints, models, priority, weight } = channel
  return {
    name,
    protocol: simulated ? 'simulator' : protocol,
    // The query of the address is left out, because it may have a credential.
    base_url: baseUrl.origin + baseUrl.pathname,
    private: channel.private,
    endpoints: [...endpoints],
    models: Object.fromEntries(models),
    priority,
    weight,
    health: health ? { ...health, until: health.until === null ? null : new Date(health.until).toISOString() } : null
  }
}
