// Sends a share of the tenants to another model, and prefers the channels that are named.
import { createHash } from 'node:crypto'
import { caller, definePlugin } from 'sluice/plugin'

export default definePlugin({
  name: 'ab',
  summary: 'Sends a share of the tenants to another model, on the channels of its choice.',
  options: {
    model: { type: 'string', description: 'The model that is asked for.' },
    other: { type: 'string', description: 'The model that some get instead.' },
    share: {
      type: 'number',
      minimum: 0,
      maximum: 1,
      default: 0.5,
      description: 'Of the tenants that get the other one.'
    },
    prefer: {
      type: 'array',
      items: { type: 'string', description: 'A channel.' },
      default: [],
      description: 'Channels to try first, in this order.'
    },
    never: {
      type: 'array',
      items: { type: 'string', description: 'A channel.' },
      default: [],
      description: 'Channels to leave out.'
    }
  },
  required: ['model', 'other'],
  rehearses: true,
  setup({ model, other, share, prefer, never }) {
    const bucket = (tenant) => createHash('sha256').update(tenant).digest().readUInt32BE() / 2 ** 32
    return {
      onModel: (exchange, asked) =>
        asked === model && bucket(exchange.find(caller)?.tenant ?? '') < share ? other : undefined,
      onCandidates(_exchange, candidates) {
        candidates.keep(({ name }) => !never.includes(name), 'it is listed in ab.never')
        candidates.prefer(({ name }) => (prefer.includes(name) ? prefer.indexOf(name) : prefer.length))
      }
    }
  }
})
