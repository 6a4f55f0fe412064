// Channels: where requests can go, and how each of these ways is doing. Never a credential.
import type { Channel } from '../catalogue/catalogue.ts'
import { sharedKey } from '../contract/contract.ts'
import type { AdminParts, Answer, Call } from './contract.ts'
import { pageOf } from './query.ts'

/** What the plugin `route` shares: by channel name, times as Unix milliseconds. */
interface HealthBoard {
  report(): Readonly<Record<string, Health>>
}

type Health = { readonly until: number | null }

const board = sharedKey<HealthBoard>('health')

/** `health` is null where no plugin of the chain keeps it. */
export function listChannels({ query }: Call, { generations, shared }: AdminParts): Answer {
  const { channels, simulated } = generations.current.config
  const health = new Map(Object.entries(shared.find('route', board)?.report() ?? {}))
  const { data, next } = pageOf([...channels.values()], ({ name }) => name, query)
  return {
    json: {
      data: data.map((channel) => show(channel, simulated.includes(channel.name), health.get(channel.name))),
      next
    }
  }
}

function show(channel: Channel, simulated: boolean, health: Health | undefined): object {
  const { name, protocol, baseUrl, endpoints, models, priority, weight } = channel
  return {
    name,
    protocol: simulated ? 'simulator' : protocol,
    // Not the address's query, which may hold a credential.
    base_url: baseUrl.origin + baseUrl.pathname,
    private: channel.private,
    endpoints: [...endpoints],
    models: Object.fromEntries(models),
    priority,
    weight,
    health: health ? { ...health, until: health.until === null ? null : new Date(health.until).toISOString() } : null
  }
}
