// A plugin in TypeScript beside gateway.yaml, as an author writes it.
import { caller, definePlugin, GatewayError, sharedKey } from 'sluice/plugin'

const inFlight = sharedKey<Map<string, number>>('in flight')

export default definePlugin({
  name: 'tenant-cap',
  summary: 'Limits how many requests of one tenant are in flight.',
  options: { limit: { type: 'integer', minimum: 1, default: 16, description: 'Most requests of one tenant at one time.' } },
  needs: [caller],
  setup({ limit }, { share }) {
    const counts = share(inFlight, () => new Map())
    return {
      onRequest(exchange) {
        const { tenant }: { tenant: string } = exchange.get(caller)
        const count = counts.get(tenant) ?? 0
        if (count >= limit) throw new GatewayError('rate_limit_concurrency', `${count} requests are in flight.`, { retryAfterMs: 1000 })
        counts.set(tenant, count + 1)
        exchange.setHeader('x-in-flight', count + 1)
        exchange.defer(() => void counts.set(tenant, counts.get(tenant)! - 1))
      }
    }
  }
})
