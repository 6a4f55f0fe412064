// Measures the pages of the console over a request log of a million records, in a real browser: until something is
// painted, and until the page has its data; beside a page without any script, as the machine may be busy.
// `node .tools/node.mjs test/console/measure-pages.ts [records] [turns]`. It takes some minutes, and 1 GB of files.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import type { Page } from 'playwright-core'
import { places } from '../../core/admin/console/app/places.ts'
import { startGateway } from '../../core/container.ts'
import { openStore } from '../../core/store/embedded/store.ts'
import { silentLog } from '../../core/telling/log.ts'
import { record } from '../core/store/embedded/sample.ts'

const [records = 1_000_000, turns = 7] = process.argv.slice(2).map(Number)
const folder = mkdtempSync(join(tmpdir(), 'sluice-pages-'))
const database = join(folder, 'sluice.db')
const file = join(folder, 'gateway.yaml')
const models = ['model-0', 'model-1', 'model-2', 'model-3']
writeFileSync(
  file,
  JSON.stringify({
    listen: { port: 0 },
    admin: { port: 0 },
    store: { sqlite: database, durability: 'process' },
    channels: { demo: { protocol: 'simulator', models: Object.fromEntries(models.map((name) => [name, name])) } },
    models: Object.fromEntries(models.map((name) => [name, { price: { input: 1, output: 2 } }])),
    tenants: { acme: { projects: { web: {} } } },
    chain: ['auth', 'quota', 'ratelimit', 'route', 'usage-meter', { log: { sink: 'none' } }]
  })
)

async function fill(): Promise<void> {
  const store = await openStore({ file: database, durability: 'process' })
  const end = Date.now()
  for (let number = 0; number < records; number++) {
    const failed = number % 100 === 3
    store.requests.append(
      record({
        time: new Date(end - (records - number) * 2000).toISOString(),
        tenant: 'acme',
        project: 'web',
        key: `k${number % 997}`,
        model: models[number % 4]!,
        status: failed ? 503 : 200,
        outcome: failed ? 'failed' : 'completed',
        error_code: failed ? 'upstream_bad_response' : null,
        channel: 'demo',
        attempts: [{ channel: 'demo', status: 200, duration_ms: 100 }],
        cost_nano: String((number % 7919) * 1000),
        duration_ms: number % 4001
      })
    )
    if (number % 2000 === 0) await store.flush()
  }
  await store.close()
}

const median = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)]!

/** Milliseconds from the request for a page until it was painted, and until it has its data. */
async function once(page: Page, address: string): Promise<[painted: number, ready: number]> {
  await page.goto(address, { waitUntil: 'commit' })
  return (await page.evaluate(`new Promise((resolve) => {
    const look = () => {
      if (!(${settled})) return requestAnimationFrame(look)
      const ready = performance.now()
      setTimeout(() => resolve([performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0, ready]), 50)
    }
    look()
  })`)) as [number, number]
}

/** A page has its data when it has a heading, and nothing in it is on its way. */
const settled = `document.querySelector('main h1, .alone h1') && !document.querySelector('main [aria-busy="true"], main .waiting')`

const plain = createServer((_request, response) =>
  response.setHeader('content-type', 'text/html').end('<main><h1>x</h1></main>')
)
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--disable-dev-shm-usage'] })
try {
  await fill()
  const gateway = await startGateway({ config: file, log: silentLog })
  await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve))
  const still = `http://127.0.0.1:${(plain.address() as AddressInfo).port}/`
  console.log(`${records} records; medians of ${turns}, in ms: painted, and with its data`)
  for (const name of ['without a script', ...places.map(({ path }) => path)]) {
    const address = name === 'without a script' ? still : `${gateway.adminUrl}/console/${name}`
    for (const again of [false, true]) {
      const times: [number, number][] = []
      for (let turn = 0; turn <= turns; turn++) {
        const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
        const page = await context.newPage()
        if (again) await once(page, address)
        times.push(await once(page, address))
        await context.close()
      }
      // The first warms up what is made once.
      const [painted, ready] = [0, 1].map((part) =>
        median(times.slice(1).map((time) => time[part]!))
          .toFixed(0)
          .padStart(5)
      )
      console.log(`${painted} ${ready}  ${name}${again ? ', again' : ''}`)
    }
  }
  await gateway.close()
} finally {
  await browser.close()
  plain.close()
  rmSync(folder, { recursive: true })
}
