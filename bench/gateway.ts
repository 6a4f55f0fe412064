// Starts Sluice with additional plugins that do nothing, in a process that the bench can ask to collect garbage or to
// reload.
import { startGateway } from '../core/container.ts'
import { definePlugin } from '../core/contract/contract.ts'
import { plugins } from '../plugins/index.ts'
import { serve } from './child.ts'

const [config, extra] = process.argv.slice(2)
const own = new Map(plugins)
for (let number = 1; number <= Number(extra); number++) {
  const name = `no-op-${number}`
  own.set(
    name,
    definePlugin({
      name,
      summary: 'Takes part in one hook and does nothing there.',
      options: {},
      setup: () => ({ onRequest() {} })
    })
  )
}

const gateway = await startGateway({ config: config!, plugins: own })
process.once('SIGTERM', () => void gateway.close().then(() => process.disconnect()))
serve<{ reload?: boolean }>({ port: Number(new URL(gateway.url).port) }, async ({ reload }) => {
  if (reload) return gateway.reload('bench')
  globalThis.gc!()
  return { heap: process.memoryUsage().heapUsed / 1024 }
})
