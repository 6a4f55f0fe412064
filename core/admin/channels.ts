// Channels: where requests can go, and how each of these ways is doing.
import type { Channel } from '../catalogue.ts'
import type { AdminParts, Route } from './contract.ts'
import { page, pageQuery } from './page.ts'

/** What the plugin that selects channels shares under `route.health`; times are Unix milliseconds. */
interface HealthBoard {
  report(): Readonly<Record<string, { readonly state: string; readonly until: number | null }>>
}

export const channelRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/admin/v1/channels',
    query: pageQuery,
    handle: ({ query }, { generations, shared }) => {
      const { channels } = generations.current.config
      const health = healthOf(shared)
      return { body: page([...channels.values()].map((channel) => show(channel, health[channel.name])), ({ name }) => name, query) }
    }
  }
]

function healthOf(shared: AdminParts['shared']): ReturnType<HealthBoard['report']> {
  return (shared.find('route.health') as HealthBoard | undefined)?.report() ?? {}
}

/** Without the credential, and without the address's query, which may hold one. */
function show({ name, protocol, baseUrl, endpoints, models, private: inside, weight, priority }: Channel, health: { until: number | null } | undefined) {
  return {
    name,
    protocol,
    base_url: baseUrl.origin + baseUrl.pathname,
    private: inside,
    endpoints: [...endpoints],
    models: Object.fromEntries(models),
    weight,
    priority,
    health: health ? { ...health, until: health.until === null ? null : new Date(health.until).toISOString() } : null
  }
}
