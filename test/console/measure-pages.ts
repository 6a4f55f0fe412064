// Measures the pages of the console over a request log of a million records, in a real browser: until something is
// painted, until the page has its data, and how the log scrolls; beside a page without any script, as the machine may
// be busy. `node .tools/node.mjs test/console/measure-pages.ts [records] [turns] [sources|package] [folder]`. `package`
// is what users get, made by .tools/build.ts first. With a folder, its store is filled once and kept. It takes minutes,
// and 1 GB of files.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import type { Page } from 'playwright-core'
import { places } from '../../core/admin/console/app/places.ts'
import { openStore } from '../../core/store/embedded/store.ts'
import { record } from '../core/store/embedded/sample.ts'

const [given = '1000000', turnsGiven = '7', what = 'sources', kept] = process.argv.slice(2)
const [records, turns] = [Number(given), Number(turnsGiven)]
/** Milliseconds in which, on a quiet machine, something is painted and a page has its data. */
const targets = { painted: 300, ready: 500 }
/** The longest frame while the log is scrolled, and how far a row may be from where it was, in pixels. */
const scrollTargets = { frame: 100, jump: 1 }

const root = join(import.meta.dirname, '../..')
const folder = kept ?? mkdtempSync(join(tmpdir(), 'sluice-pages-'))
const database = join(folder, 'sluice.db')
const file = join(folder, 'gateway.yaml')
const models = ['model-0', 'model-1', 'model-2', 'model-3']
mkdirSync(folder, { recursive: true })
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

/** Starts the gateway as a process of its own, as it runs, and gives the address of its admin listener. */
async function started(): Promise<{ adminUrl: string; stop(): void }> {
  if (what === 'package') spawnSync(process.execPath, [join(root, '.tools/build.ts')], { stdio: 'inherit' })
  const main = join(root, what === 'package' ? 'dist/core/main.js' : 'core/main.ts')
  const child = spawn(process.execPath, [main, 'start', '--config', file], { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  const adminUrl = await new Promise<string>((resolve, reject) => {
    const take = (text: Buffer): void => {
      output += text.toString()
      const addresses = /^.*ready.*\n/m.exec(output)?.[0].match(/https?:\/\/[\w.:[\]-]+/g)
      if (addresses) resolve(addresses[1]!)
    }
    child.stdout.on('data', take)
    child.stderr.on('data', take)
    child.once('exit', () => reject(new Error(`the gateway did not start: ${output}`)))
  })
  return { adminUrl, stop: () => child.kill('SIGKILL') }
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

/** Scrolls the log by thousands of rows, which come page by page: the longest frame, and how far a row jumps. */
async function scrolled(page: Page, address: string): Promise<{ rows: number; frame: number; jump: number }> {
  await once(page, address)
  await page.evaluate(`(() => {
    const box = document.querySelector('.table-box')
    const seen = (globalThis.seen = { frame: 0, jump: 0 })
    let [before, places] = [performance.now(), new Map()]
    const look = (now) => {
      seen.frame = Math.max(seen.frame, now - before)
      before = now
      const top = box.getBoundingClientRect().top - box.scrollTop
      const next = new Map()
      for (const link of box.querySelectorAll('tbody td:first-child a')) {
        const place = link.getBoundingClientRect().top - top
        next.set(link.href, place)
        if (places.has(link.href)) seen.jump = Math.max(seen.jump, Math.abs(place - places.get(link.href)))
      }
      places = next
      requestAnimationFrame(look)
    }
    requestAnimationFrame(look)
  })()`)
  await page.locator('.table-box').hover()
  for (let turn = 0; turn < 150; turn++) await page.mouse.wheel(0, 400)
  await page.waitForTimeout(500)
  const { frame, jump } = (await page.evaluate('globalThis.seen')) as { frame: number; jump: number }
  const rows = (await page.evaluate(`Math.floor(document.querySelector('.table-box').scrollTop / 28)`)) as number
  return { rows, frame, jump }
}

const verdict = (met: boolean): string => (met ? 'yes' : 'NO')
const ms = (value: number): string => value.toFixed(0).padStart(5)

const plain = createServer((_request, response) =>
  response.setHeader('content-type', 'text/html').end('<main><h1>x</h1></main>')
)
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--disable-dev-shm-usage'] })
try {
  if (!existsSync(database)) await fill()
  const gateway = await started()
  await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve))
  const still = `http://127.0.0.1:${(plain.address() as AddressInfo).port}/`
  console.log(`${records} records, ${what}; medians of ${turns} visits in ms; load ${loadavg()[0]!.toFixed(1)}`)
  console.log(`| page | painted | < ${targets.painted} | with its data | < ${targets.ready} |`)
  console.log('|---|---|---|---|---|')
  const open = async (): Promise<Page> =>
    (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage()
  let missed = 0
  for (const name of ['without a script', ...places.map(({ path }) => path)]) {
    const address = name === 'without a script' ? still : `${gateway.adminUrl}/console/${name}`
    for (const again of [false, true]) {
      const times: [number, number][] = []
      for (let turn = 0; turn <= turns; turn++) {
        const page = await open()
        if (again) await once(page, address)
        times.push(await once(page, address))
        await page.context().close()
      }
      // The first warms up what is made once.
      const [painted, ready] = [0, 1].map((part) => median(times.slice(1).map((time) => time[part]!)))
      const met = [painted! < targets.painted, ready! < targets.ready]
      missed += met.filter((one) => !one).length
      console.log(
        `| ${name}${again ? ', again' : ''} | ${ms(painted!)} | ${verdict(met[0]!)} | ${ms(ready!)} | ${verdict(met[1]!)} |`
      )
    }
  }
  const page = await open()
  const { rows, frame, jump } = await scrolled(page, `${gateway.adminUrl}/console/requests`)
  const [smooth, still_] = [frame < scrollTargets.frame, jump <= scrollTargets.jump]
  console.log(`\n| the log, scrolled by ${rows} rows | | met |\n|---|---|---|`)
  console.log(`| longest frame, ms | ${ms(frame)} | ${verdict(smooth)} |`)
  console.log(`| farthest jump of a row, px | ${ms(jump)} | ${verdict(still_)} |`)
  missed += [smooth, still_].filter((one) => !one).length
  console.log(
    `\n${missed === 0 ? 'All targets are met.' : `${missed} targets are missed.`} Load ${loadavg()[0]!.toFixed(1)}.`
  )
  gateway.stop()
} finally {
  await browser.close()
  plain.close()
  if (kept === undefined) rmSync(folder, { recursive: true })
}
