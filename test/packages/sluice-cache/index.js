// Answers what a tenant has asked before with what it was answered then: whole, or the same events again.
import { createHash } from 'node:crypto'
import { caller, definePlugin, slot } from 'sluice/plugin'

const place = slot('sluice-cache/key').of()

export default definePlugin({
  name: 'cache',
  summary: 'Answers repeated requests of a tenant from memory.',
  options: { ttl: { type: 'string', format: 'duration', default: '5m', description: 'How long an answer is kept.' } },
  needs: [caller],
  rehearses: true,
  setup({ ttl }, { cache }) {
    return {
      async onRequest(exchange) {
        const { operation } = exchange.request
        if (operation.name !== 'chat') return
        const key = createHash('sha256').update(`${exchange.model}\n`).update(exchange.body.bytes).digest('hex')
        const kept = await cache.get(exchange, key)
        const headers = [['x-cache', 'hit']]
        if (kept)
          return exchange.streaming
            ? { headers, stream: kept }
            : { status: 200, headers: [...headers, ['content-type', 'application/json']], body: kept }
        exchange.set(place, key)
      },
      onResponse(exchange) {
        const key = exchange.find(place)
        if (key === undefined) return
        const pieces = []
        return {
          takes: 'messages',
          observe: ({ bytes }) => void pieces.push(Buffer.from(bytes)),
          end: (complete) => complete && void cache.set(exchange, key, Buffer.concat(pieces), ttl)
        }
      }
    }
  }
})
