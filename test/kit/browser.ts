// A real browser for tests of the console: Debian's Chromium, one for each file, a context for each page. Any error or
// warning in a page, any request to elsewhere and anything that its policy refused fails an assertion of the file.
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import type { Test } from 'tap'
import { places } from '../../core/admin/console/app/places.ts'
import t from 'tap'
import { chromiumProgram } from './chromium.ts'

export type { Page } from 'playwright-core'

/** Milliseconds until something that a test waits for has to be there; a busy machine takes long. */
const patience = 60_000
const pictures = join(import.meta.dirname, '../../core/admin/console/pictures')

let browser: Promise<Browser> | undefined

/** Starts the browser of this file with the first page; it is closed with the file. */
function started(): Promise<Browser> {
  browser ??= launch()
  return browser
}

async function launch(): Promise<Browser> {
  const launched = await chromium.launch({
    executablePath: chromiumProgram(),
    args: [
      '--disable-dev-shm-usage',
      '--font-render-hinting=none',
      '--host-resolver-rules=MAP *.test 127.0.0.1',
      '--use-fake-ui-for-media-stream',
      '--use-fake-device-for-media-stream'
    ]
  })
  // One that has crashed fails the test whose page it had, and not all that follow.
  launched.on('disconnected', () => (browser = undefined))
  return launched
}

t.teardown(async () => (await browser)?.close())

/** What the pages of a test did wrong. It is complete when the test is over and its pages are closed. */
const wrongs = new WeakMap<object, string[]>()

// The test itself takes no assertion any more; the file does.
t.afterEach((over) => {
  const wrong = wrongs.get(over)
  if (wrong) t.same(wrong, [], `${over.name}: the pages do nothing wrong`)
})

/** How a page is opened. */
export interface PageSetup {
  /** Default: 1280 × 800. */
  width?: number
  height?: number
  /** Default: light. */
  scheme?: 'light' | 'dark'
  /** More for the context of the page. */
  context?: BrowserContextOptions
  /** What it may say that would fail the test otherwise. */
  expected?: readonly RegExp[]
}

/** A page of its own context, which is closed when the test is over. */
export async function openPage(t: Test, address: string, setup: PageSetup = {}): Promise<Page> {
  const { width = 1280, height = 800, scheme = 'light', context: more, expected = [] } = setup
  const context = await (
    await started()
  ).newContext({
    viewport: { width, height },
    colorScheme: scheme,
    reducedMotion: 'reduce',
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    ...more
  })
  context.setDefaultTimeout(patience)
  const wrong = wrongs.get(t) ?? []
  wrongs.set(t, wrong)
  const answers: Promise<void>[] = []
  const note = (text: string): void => {
    if (!expected.some((pattern) => pattern.test(text))) wrong.push(text)
  }
  const { origin } = new URL(address)
  context.on('page', (page) => {
    page.on('pageerror', (error) => note(`error: ${error.stack ?? error.message}`))
    page.on('console', (message) => {
      // The browser notes each refusal of the API; what the page makes of it is what tests look at.
      const refused =
        /status of 4\d\d/.test(message.text()) && new URL(message.location().url).pathname.startsWith('/admin/')
      const { url } = message.location()
      if (!refused && /^(?:error|warning)$/.test(message.type())) note(`${message.type()}: ${message.text()} (${url})`)
    })
    page.on('response', (response) => {
      if (response.status() < 500) return
      const told = response.text().catch((error: Error) => error.message)
      answers.push(told.then((text) => note(`answer ${response.status()} of ${response.url()}: ${text}`)))
    })
    page.on('request', (request) => {
      const url = new URL(request.url())
      if (url.protocol.startsWith('http') && url.origin !== origin) note(`request to elsewhere: ${request.url()}`)
    })
  })
  t.teardown(async () => {
    await Promise.all(answers)
    await context.close()
  })
  const page = await context.newPage()
  await page.goto(address)
  return page
}

/** Axe as a script of half a megabyte, read with the first page that is checked. */
function axe(): string {
  return (axeRead ??= readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'))
}
let axeRead: string | undefined

/** A finding of axe. */
interface Violation {
  id: string
  help: string
  /** The beginning of each element that it is about. */
  nodes: string[]
}

const allRules = "'wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'"
/** The rules that look at colours. */
const ofColours = "{ type: 'rule', values: ['color-contrast', 'link-in-text-block'] }"

/**
 * Checks a page as it is by axe (WCAG 2.2 AA), and what axe does not see: that nothing is wider than the window, and
 * that there is one first heading. A dark page is a light one in other colours, so axe looks at nothing else there. A
 * narrow one has the same elements in other places, so axe does not look at one that is dark as well.
 */
export async function accessible(t: Test, page: Page, what: string): Promise<void> {
  // Evaluated and not loaded: the policy of the page allows no other script.
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(`${axe()};0`)
  const found = (await page.evaluate(
    `matchMedia('(prefers-color-scheme: dark) and (max-width: 760px)').matches ? [] : window.axe
      .run(document, {
        runOnly: matchMedia('(prefers-color-scheme: dark)').matches ? ${ofColours} : [${allRules}],
        // What is in order is neither described nor sent: that takes more than to look at it.
        resultTypes: ['violations'],
        selectors: false
      })
      .then(({ violations }) =>
        violations.map(({ id, help, nodes }) => ({ id, help, nodes: nodes.map(({ html }) => html.slice(0, 200)) })))`
  )) as Violation[]
  t.same(found, [], `${what}: axe finds nothing`)
  const [wide, inner] = (await page.evaluate('[document.documentElement.scrollWidth, innerWidth]')) as [number, number]
  t.ok(wide <= inner, `${what}: nothing is wider than the window (${wide} of ${inner} px)`)
  t.equal(await page.locator('h1').count(), 1, `${what}: one first heading`)
}

/**
 * Shows a page dark and light, wide and narrow, and calls `check` in each of these forms. With `SLUICE_PICTURES=keep`
 * it takes the pictures of the README of the console; with the name of a folder, PNGs to look at.
 */
export async function inAllForms(page: Page, name: string, check?: (form: string) => Promise<void>): Promise<void> {
  const wanted = process.env['SLUICE_PICTURES']
  const folder = wanted === 'keep' ? pictures : wanted
  const before = page.viewportSize()
  for (const scheme of ['light', 'dark'] as const)
    for (const [form, width, height] of forms) {
      await page.setViewportSize({ width, height })
      await page.emulateMedia({ colorScheme: scheme })
      await page.evaluate('document.fonts.ready.then(() => new Promise(requestAnimationFrame)).then(() => undefined)')
      await check?.(`${name}, ${scheme}, ${form}`)
      if (folder === undefined) continue
      mkdirSync(folder, { recursive: true })
      const path = join(folder, `${name}-${scheme}-${form}`)
      if (wanted === 'keep' && !kept.has(name)) continue
      if (wanted === 'keep') await page.screenshot({ path: `${path}.jpg`, type: 'jpeg', quality: 50 })
      else await page.screenshot({ path: `${path}.png` })
    }
  await page.emulateMedia({ colorScheme: 'light' })
  if (before) await page.setViewportSize(before)
}

/** The pages whose pictures are kept: each place of the console, and what else everybody meets. */
const kept: ReadonlySet<string> = new Set([...places.map(({ path }) => path), 'sign-in', 'request', 'palette'])

const forms = [
  ['wide', 1280, 800],
  ['narrow', 360, 740]
] as const
