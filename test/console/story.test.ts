// The first hour of an operator, told twice in a browser: by mouse, and by the keyboard alone. A key is made and used
// by the snippet that the page shows, its request is seen as it comes, one is refused, the page says why, and it is
// mended.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import type { Test } from 'tap'
import { openPage } from '../kit/browser.ts'
import type { Page } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { gateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

type Locator = ReturnType<Page['locator']>

const token = 'the token of the owner of this story'
const patience = 60_000

/** How somebody works with a page. */
interface Hands {
  /** Presses a button, or follows a link. */
  press(what: Locator): Promise<void>
  /** Writes into a field, in place of what is there. */
  write(field: Locator, text: string): Promise<void>
  /** Goes to a page by its name. */
  goTo(page: string): Promise<void>
  /** Leaves what is open, and sees that it is gone. */
  leave(open: Locator, close: Locator): Promise<void>
  /** Sees that they are at something again. */
  back(to: Locator): Promise<void>
}

function byMouse(page: Page): Hands {
  return {
    press: (what) => what.click(),
    write: (field, text) => field.fill(text),
    goTo: async (name) => page.getByRole('navigation').getByRole('link', { name, exact: true }).click(),
    async leave(open, close) {
      await close.click()
      await open.waitFor({ state: 'detached' })
    },
    back: (to) => to.waitFor()
  }
}

/** The keyboard alone. After each step something has the focus, and it can be seen. */
function byKeys(t: Test, page: Page): Hands {
  const { keyboard } = page
  const told = (): Promise<string> => page.evaluate('document.activeElement.outerHTML.slice(0, 200)')
  const held = async (after: string): Promise<void> => {
    const seen = `(() => {
      const now = document.activeElement
      const { top, bottom, left, right, width } = now.getBoundingClientRect()
      if (now === document.body || !now.matches(':focus-visible') || width === 0) return false
      // Nothing that stays where it is, such as a bar, lies over all of it.
      const [from, to] = [Math.max(top, 0) + 1, Math.min(bottom, innerHeight) - 1]
      const [start, end] = [Math.max(left, 0) + 1, Math.min(right, innerWidth) - 1]
      const places = [0, 0.25, 0.5, 0.75, 1]
      return places.some((down) => places.some((along) =>
        now.contains(document.elementFromPoint(start + along * (end - start), from + down * (to - from)))))
        && document.documentElement.scrollWidth <= innerWidth
    })()`
    const found = await eventually(async () => (await page.evaluate(seen)) === true, 10_000).then(
      () => true,
      () => false
    )
    t.ok(found, `after ${after} the focus can be seen, and the page is not wider than its window: ${await told()}`)
  }
  const has = (what: Locator): Promise<boolean> =>
    what.evaluate((one) => (one as unknown as { matches(by: string): boolean }).matches(':focus'))
  const reach = async (what: Locator): Promise<void> => {
    await what.waitFor()
    for (let pressed = 0; pressed < 150; pressed++) {
      if (await has(what)) return
      await keyboard.press('Tab')
    }
    throw new Error(`Tab does not come to ${what}, but to ${await told()}`)
  }
  return {
    async press(what) {
      await reach(what)
      await keyboard.press('Enter')
      await held(`pressing ${what}`)
    },
    async write(field, text) {
      await reach(field)
      await keyboard.press('Control+a')
      await keyboard.type(text)
      await held(`writing into ${field}`)
    },
    async goTo(name) {
      await keyboard.press('Control+k')
      await page.getByRole('combobox', { name: 'Page or command' }).waitFor()
      await keyboard.type(name)
      await keyboard.press('Enter')
      const heading = page.getByRole('heading', { level: 1, name, exact: true })
      await heading.waitFor()
      await eventually(() => has(heading), 10_000).catch(() => {})
      t.ok(await has(heading), `the heading of ${name} has the focus, and not ${await told()}`)
    },
    async leave(open) {
      const before = await told()
      await keyboard.press('Escape')
      await open.waitFor({ state: 'detached' }).catch(async (error: unknown) => {
        throw new Error(`Escape at ${before} does not close ${open}, and ${await told()} has the focus`, {
          cause: error
        })
      })
      await held('Escape')
    },
    async back(to) {
      const found = await eventually(() => has(to), 10_000).then(
        () => true,
        () => false
      )
      t.ok(found, `the focus is back at ${to}, and not at ${await told()}`)
    }
  }
}

/** Runs what the page shows, as somebody would who copies it into a shell. Resolves with the status and the code. */
async function run(snippet: string): Promise<string> {
  const silent = snippet.replace(/^curl /, `curl -s -w '\\n%{http_code}' `)
  const { stdout } = await promisify(execFile)('sh', ['-c', silent], { timeout: patience })
  const [body, status] = [stdout.slice(0, stdout.lastIndexOf('\n')), stdout.slice(stdout.lastIndexOf('\n') + 1)]
  return [status, (JSON.parse(body) as { error?: { code: string } }).error?.code ?? ''].join(' ').trim()
}

async function story(t: Test, handsOf: (page: Page) => Hands, size?: { width: number; height: number }): Promise<void> {
  const local = await gateway(t, { admin: { token } })
  const page = await openPage(t, `${local.adminUrl}/console/`, size)
  const { press, write, goTo, leave, back } = handsOf(page)
  const button = (name: string): Locator => page.getByRole('button', { name, exact: true })
  const dialog = page.getByRole('dialog')

  await write(page.getByLabel('Token'), token)
  await press(button('Sign in'))
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  // It is gone as soon as the page is loaded anew.
  await page.evaluate('window.neverLeft = true')

  await goTo('Keys')
  await press(button('Make a key'))
  await write(dialog.getByLabel('tenant'), 'acme')
  await write(dialog.getByLabel('name', { exact: true }), 'laptop')
  await press(dialog.getByRole('button', { name: 'Make', exact: true }))
  const snippet = (await dialog.getByLabel('curl', { exact: true }).textContent())!.trim()
  await page.keyboard.press('Escape')
  await page.keyboard.press('Escape')
  await dialog.getByLabel('Secret', { exact: true }).waitFor()
  await press(button('I have kept it'))

  /** Runs the snippet, which the page tells of while it is looked at, and lets it show the request. */
  const come = async (wanted: string, what: string): Promise<void> => {
    const fresh = page.getByRole('button', { name: / new/ })
    const seen = new Set<string>()
    // The page may not be listening yet when the first one comes.
    await eventually(async () => {
      seen.add(await run(snippet))
      return (await fresh.count()) > 0
    }, patience)
    t.same([...seen], [wanted], what)
    await press(fresh)
  }
  await goTo('Requests')
  await page.getByText('No requests yet').waitFor()
  await come('200', 'the snippet of the page works')
  const rows = page.getByRole('region', { name: 'Table of requests' }).locator('tbody tr')
  await rows.filter({ hasText: 'laptop' }).first().waitFor()

  await goTo('Keys')
  await press(page.getByRole('link', { name: 'laptop', exact: true }))
  const key = page.getByRole('region', { name: 'Key laptop' })
  const budget = async (usd: string): Promise<void> => {
    await press(key.getByRole('button', { name: 'Change', exact: true }))
    const set = dialog.getByRole('button', { name: 'Set budget' })
    await dialog.getByLabel('name').or(set).or(dialog.getByLabel('usd')).first().waitFor()
    if ((await dialog.getByLabel('usd').count()) === 0) await press(set)
    await write(dialog.getByLabel('usd'), usd)
    await write(dialog.getByLabel(/^per/), 'day')
    await press(dialog.getByRole('button', { name: 'Save' }))
    await dialog.waitFor({ state: 'detached' })
  }
  await budget('0.000001')
  await leave(key, page.getByLabel('Close the key'))
  await back(page.getByRole('link', { name: 'laptop', exact: true }))

  await goTo('Requests')
  await rows.first().waitFor()
  await come('429 quota_key_exceeded', 'the budget binds')
  await press(rows.filter({ hasText: '429' }).getByRole('link').first())
  const request = page.getByRole('region', { name: 'One request' })
  await request.getByText(/429 quota_key_exceeded: refused by the plugin quota/).waitFor()
  await request.locator('.notice', { hasText: 'key:laptop' }).waitFor()
  await press(request.getByRole('link', { name: 'laptop', exact: true }))
  await budget('5')
  await key.getByText('$5.00 a day').first().waitFor()
  t.equal(await run(snippet), '200', 'the next one passes')

  await press(key.getByRole('button', { name: 'Revoke', exact: true }))
  await write(dialog.getByLabel(/^Type/), 'laptop')
  await press(dialog.getByRole('button', { name: 'Revoke' }))
  await key.locator('.status', { hasText: 'revoked' }).waitFor()
  t.equal(await run(snippet), '401 invalid_api_key', 'and a revoked key is refused')

  local.configure({ admin: { token }, tenants: { acme: { budget: { usd: 7, per: 'month' } } } })
  await local.gateway.reload('SIGHUP')
  t.equal(local.gateway.config.tenants.get('acme')!.budgets.length, 1)
  await goTo('Configuration')
  await press(page.getByRole('link', { name: 'History', exact: true }))
  await press(page.getByRole('row', { name: /start/ }).getByRole('link'))
  const past = page.getByRole('region', { name: 'Configuration of the history' })
  await press(past.getByRole('button', { name: /^Roll back/ }))
  await press(dialog.getByRole('button', { name: 'Roll back' }))
  await page.getByRole('row', { name: /rollback/ }).waitFor()
  t.equal(local.gateway.config.tenants.get('acme')!.budgets.length, 0, 'what was before is in use again')
  t.equal(await page.evaluate('window.neverLeft'), true, 'the page was never loaded anew')
}

t.test('an operator begins, by mouse', (t) => story(t, byMouse))

t.test('an operator begins, by the keyboard alone', (t) => story(t, (page) => byKeys(t, page)))

t.test('an operator begins, by the keyboard alone in a narrow window', (t) =>
  story(t, (page) => byKeys(t, page), { width: 360, height: 640 })
)
