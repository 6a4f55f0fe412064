// A gateway that can be stopped where no upstream can stop it: `node test/chaos/halting.ts <config>`, with requests
// that say where.
import { startGateway } from '../../core/container.ts'
import { definePlugin } from '../../core/contract/contract.ts'
import type { Exchange } from '../../core/contract/contract.ts'
import { plugins } from '../../plugins/index.ts'

const never = new Promise<void>(() => {})

function wants(exchange: Exchange, place: string): boolean {
  return exchange.request.headers['x-halt'] === place
}

/** Below quota: the money is held, and nothing will be sent. */
const halt = definePlugin({
  name: 'halt',
  summary: 'Keeps requests that carry `x-halt: reserved` for ever.',
  options: {},
  setup: () => ({ onRequest: (exchange) => (wants(exchange, 'reserved') ? never : undefined) })
})

/** Anywhere: the end of the answer waits for it, beside the settlement. */
const withhold = definePlugin({
  name: 'withhold',
  summary: 'Keeps the end of answers whose requests carry `x-halt: settled`.',
  options: {},
  setup: () => ({
    onRequest(exchange) {
      if (wants(exchange, 'settled')) exchange.defer(() => never)
    }
  })
})

const [config = ''] = process.argv.slice(2)
const more = [halt, withhold].map((plugin) => [plugin.name, plugin] as const)
const { url, adminUrl } = await startGateway({ config, plugins: new Map([...plugins, ...more]) })
process.stdout.write(`halting gateway is ready: ${url} (admin ${adminUrl})\n`)
