// Measures the pages of the console over a request log of a million records, in a real browser: until something is
// painted, until the page has its data, the processor time of both, searches that find little or nothing, and how the
// log scrolls; beside a page without any script, as the machine may be busy.
// `node .tools/node.mjs test/console/measure-pages.ts [records] [turns] [sources|package] [folder]`: `package` is what
// users get, made by .tools/build.ts first. With a folder, its store is filled once and kept. It takes minutes, and
// 1 GB of files. What a run over a million records found is written to core/admin/console/FIGURES.md.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import { chromiumProgram } from '../kit/chromium.ts'
import type { Browser, Page } from 'playwright-core'
import { places } from '../../core/admin/console/app/places.ts'
import { openStore } from '../../core/store/embedded/store.ts'
import { record } from '../core/store/embedded/sample.ts'

const [given = '1000000', turnsGiven = '7', what = 'sources', kept] = process.argv.slice(2)
const [records, turns] = [Number(given), Number(turnsGiven)]
/** Milliseconds in which, on a quiet machine, something is painted and a page has its data. */
const targets = { painted: 300, ready: 500 }
/**
 * Of the log while it is scrolled: the processor time of the longest task between two frames, in milliseconds, and how
 * far a row may be from where it was, in pixels.
 */
const scrollTargets = { task: 100, jump: 1 }
/** What is searched for: what few or none of the records have, and what is left out. */
const searches = [
  'key=k7&status=5xx&model=model-3',
  'key=nobody',
  'tag=team',
  'duration_min=4000ms&cost_min=0.0079',
  'not_model=model-0&not_status=2xx',
  'not_tenant=acme',
  'not_channel=demo',
  'until=2020-01-01'
]
const figures = join(import.meta.dirname, '../../core/admin/console/FIGURES.md')

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
async function started(): Promise<{ adminUrl: string; pid: number; stop(): void }> {
  if (what === 'package') spawnSync(process.execPath, [join(root, '.tools/build.ts')], { stdio: 'inherit' })
  const main = join(root, what === 'package' ? 'dist/core/main.js' : 'core/main.ts')
  const child = spawn(process.execPath, [main, 'start', '--config', file], { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  const adminUrl = await new Promise<string>((resolve, reject) => {
    const take = (text: Buffer): void => {
      output += text.toString()
      const addresses = /^.*\bready\b.*https?:\/\/.*\n/m.exec(output)?.[0].match(/https?:\/\/[\w.:[\]-]+/g)
      if (addresses) resolve(addresses[1]!)
    }
    child.stdout.on('data', take)
    child.stderr.on('data', take)
    child.once('exit', () => reject(new Error(`the gateway did not start: ${output}`)))
  })
  return { adminUrl, pid: child.pid!, stop: () => child.kill('SIGKILL') }
}

const median = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)]!

/** Milliseconds of processor time that processes have taken: those that `of` selects among the children of this one. */
function processorTime(of: (pid: number) => boolean): number {
  const parents = new Map(
    readdirSync('/proc').flatMap((name) => {
      try {
        return [[Number(name), Number(/^\d+ \(.*\) \S (\d+)/s.exec(readFileSync(`/proc/${name}/stat`, 'utf8'))![1])]]
      } catch {
        // It is no process, or has ended.
        return []
      }
    })
  )
  const own = (pid: number): boolean => pid === process.pid || (pid > 1 && own(parents.get(pid) ?? 0))
  const ran = [...parents.keys()]
    .filter((pid) => pid !== process.pid && own(pid) && of(pid))
    .flatMap((pid) => {
      try {
        return readdirSync(`/proc/${pid}/task`).map((thread) =>
          Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0])
        )
      } catch {
        return []
      }
    })
  return ran.reduce((sum, one) => sum + one, 0) / 1e6
}

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

interface TraceEvent {
  readonly name: string
  readonly pid: number
  readonly tid: number
  /** Microseconds of processor time. */
  readonly tdur?: number
  readonly args: { readonly name?: string }
}

/**
 * Scrolls the log by thousands of rows, which come page by page: the processor time of the longest task, and how far a
 * row jumps.
 */
async function scrolled(
  browser: Browser,
  page: Page,
  address: string
): Promise<{ rows: number; task: number; jump: number }> {
  await once(page, address)
  await page.evaluate(`(() => {
    const box = document.querySelector('.table-box')
    const seen = (globalThis.seen = { jump: 0 })
    let places = new Map()
    const look = () => {
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
  await browser.startTracing(page, { categories: ['disabled-by-default-devtools.timeline'] })
  for (let turn = 0; turn < 150; turn++) await page.mouse.wheel(0, 400)
  await page.waitForTimeout(500)
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: TraceEvent[] }
  const drawing = new Set(
    traceEvents.flatMap(({ name, args, pid, tid }) =>
      args.name === 'CrRendererMain' && name === 'thread_name' ? [`${pid} ${tid}`] : []
    )
  )
  const tasks = traceEvents.filter(({ name, pid, tid }) => name === 'RunTask' && drawing.has(`${pid} ${tid}`))
  const task = tasks.reduce((longest, { tdur = 0 }) => Math.max(longest, tdur), 0) / 1000
  const { jump } = (await page.evaluate('globalThis.seen')) as { jump: number }
  const rows = (await page.evaluate(`Math.floor(document.querySelector('.table-box').scrollTop / 28)`)) as number
  return { rows, task, jump }
}

const verdict = (met: boolean): string => (met ? 'yes' : 'NO')
const ms = (value: number): string => value.toFixed(0)

const plain = createServer((_request, response) =>
  response.setHeader('content-type', 'text/html').end('<main><h1>x</h1></main>')
)
const browser = await chromium.launch({ executablePath: chromiumProgram(), args: ['--disable-dev-shm-usage'] })
try {
  if (!existsSync(database)) await fill()
  const gateway = await started()
  await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve))
  const still = `http://127.0.0.1:${(plain.address() as AddressInfo).port}/`
  const report: string[] = []
  const say = (line: string): void => {
    report.push(line)
    console.log(line)
  }
  say(
    `${records.toLocaleString('en-US')} records, ${what}, medians of ${turns} visits in milliseconds, on two shared cores at a load of ${loadavg()[0]!.toFixed(1)} at first. "Painted" should be below ${targets.painted}, "with its data" below ${targets.ready}; the processor time is that of a first visit, in the browser with all its processes and in the gateway.\n`
  )
  say('| page | painted | with its data | met | again: painted | with its data | met | browser | gateway |')
  say('|---|---|---|---|---|---|---|---|---|')
  const open = async (): Promise<Page> =>
    (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage()
  let missed = 0
  const visits = async (name: string, address: string): Promise<void> => {
    const cells: string[] = []
    const used: string[] = []
    for (const again of [false, true]) {
      const times: (readonly number[])[] = []
      // The first warms up what is made once.
      for (let turn = 0; turn <= turns; turn++) {
        const page = await open()
        if (again) await once(page, address)
        const cost = (): readonly number[] => [
          processorTime((pid) => pid !== gateway.pid),
          processorTime((pid) => pid === gateway.pid)
        ]
        const before = cost()
        const visit = await once(page, address)
        times.push([...visit, ...cost().map((ran, place) => ran - before[place]!)])
        await page.context().close()
      }
      const [painted, ready, ...costs] = [0, 1, 2, 3].map((part) => median(times.slice(1).map((time) => time[part]!)))
      const met = painted! < targets.painted && ready! < targets.ready
      if (!met) missed++
      cells.push(ms(painted!), ms(ready!), verdict(met))
      if (!again) used.push(...costs.map(ms))
    }
    say(`| ${[name, ...cells, ...used].join(' | ')} |`)
  }
  await visits('one without a script', still)
  for (const { path } of places) await visits(path, `${gateway.adminUrl}/console/${path}`)
  say(`\n| search of the log, with its count | milliseconds | gateway's processor time | found |\n|---|---|---|---|`)
  for (const search of searches) {
    const times: (readonly number[])[] = []
    let found = 0
    for (let turn = 0; turn <= turns; turn++) {
      const [began, before] = [performance.now(), processorTime((pid) => pid === gateway.pid)]
      for (const path of ['requests', 'requests/totals']) {
        const reply = await fetch(`${gateway.adminUrl}/admin/v1/${path}?${search}`)
        const said = (await reply.json()) as { requests?: number }
        if (!reply.ok) throw new Error(JSON.stringify(said))
        found = said.requests ?? found
      }
      times.push([performance.now() - began, processorTime((pid) => pid === gateway.pid) - before])
    }
    const [took, ran] = [0, 1].map((part) => median(times.slice(1).map((time) => time[part]!)))
    if (took! > targets.ready) missed++
    say(`| \`${search}\` | ${ms(took!)} | ${ms(ran!)} | ${found.toLocaleString('en-US')} |`)
  }
  const page = await open()
  const { rows, task, jump } = await scrolled(browser, page, `${gateway.adminUrl}/console/requests`)
  const [smooth, still_] = [task < scrollTargets.task, jump <= scrollTargets.jump]
  say(`\n| the log, scrolled by ${rows.toLocaleString('en-US')} rows | | met |\n|---|---|---|`)
  say(`| longest task of the page, processor time in ms | ${ms(task)} | ${verdict(smooth)} |`)
  say(`| farthest jump of a row, px | ${ms(jump)} | ${verdict(still_)} |`)
  missed += [smooth, still_].filter((one) => !one).length
  say(
    `\n${missed === 0 ? 'All targets are met.' : `${missed} targets are missed.`} Load ${loadavg()[0]!.toFixed(1)} at last.`
  )
  if (records === 1_000_000) {
    const between = new RegExp(`(<!-- ${what} -->\\n)[^]*?(<!-- /${what} -->)`)
    writeFileSync(
      figures,
      readFileSync(figures, 'utf8').replace(between, (_, begin, end) => `${begin}\n${report.join('\n')}\n\n${end}`)
    )
  }
  gateway.stop()
} finally {
  await browser.close()
  plain.close()
  if (kept === undefined) rmSync(folder, { recursive: true })
}
