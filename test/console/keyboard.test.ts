// Every page of the console by the keyboard: Tab comes to all that can be used, in the order in which it is read, each
// with a name and with a focus that can be seen.
import t from 'tap'
import type { Test } from 'tap'
import { places } from '../../core/admin/console/app/places.ts'
import { openPage } from '../kit/browser.ts'
import type { Page } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { gateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

/** Where the focus came to: what it is, and what is wrong with it. */
interface Stop {
  readonly what: string
  readonly wrong: readonly string[]
}

/** Runs in the page: notes each stop of the focus. What can be used and was never come to is left over at the end. */
const watch = `(() => {
  const kinds = 'a[href], button, input, select, textarea, summary, audio, video, iframe, [tabindex], [contenteditable]'
  const told = (one) => one.outerHTML.slice(0, 120).replace(/\\s+/g, ' ')
  const usable = (one) =>
    one.tabIndex >= 0 && !one.matches(':disabled') && one.checkVisibility({ visibilityProperty: true })
  const left = new Set([...ROOT.querySelectorAll(kinds)].filter(usable))
  const stops = []
  let before
  addEventListener('focusin', ({ target }) => {
    left.delete(target)
    const wrong = []
    const style = getComputedStyle(target)
    const box = target.getBoundingClientRect()
    if (!target.matches(':focus-visible') || style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 1)
      wrong.push('its focus cannot be seen')
    if (target.parentElement?.closest('a, button, summary')) wrong.push('it is in what can be used itself')
    if (box.width === 0 || box.height === 0) wrong.push('it has no size')
    const x = Math.min(Math.max(box.left + box.width / 2, 0), innerWidth - 1)
    const y = Math.min(Math.max(box.top + Math.min(box.height / 2, 12), 0), innerHeight - 1)
    const above = document.elementFromPoint(x, y)
    if (!above || !(target.contains(above) || above.contains(target))) wrong.push('something covers it: ' + (above && told(above)))
    if (before && before.isConnected) {
      const last = before.getBoundingClientRect()
      const follows = before.compareDocumentPosition(target) & Node.DOCUMENT_POSITION_FOLLOWING
      const seen = box.bottom > last.top || box.left >= last.right - 8
      if (stops.length > 0 && !(follows && seen)) wrong.push('it comes after ' + told(before))
    }
    before = target
    stops.push({ what: told(target), wrong })
  })
  window.walked = () => ({ stops, left: [...left].filter((one) => one.isConnected).map(told) })
  window.wanted = left.size
})()`

/** Goes through a page by Tab to its end: from its beginning, or behind the link that skips the navigation. */
async function walk(t: Test, page: Page, what: string, whole: boolean): Promise<void> {
  if (!whole) {
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    t.equal(await page.evaluate('document.activeElement.id'), 'main', `${what}: the navigation can be skipped`)
  }
  await page.evaluate(watch.replace('ROOT', whole ? 'document' : "document.getElementById('main')"))
  const wanted = (await page.evaluate('window.wanted')) as number
  // Some fields take several: a date has day, month and year.
  for (let pressed = 0; pressed < 3 * wanted; pressed++) {
    await page.keyboard.press('Tab')
    if (pressed >= wanted - 1 && (await page.evaluate('window.walked().left.length')) === 0) break
  }
  const { stops, left } = (await page.evaluate('window.walked()')) as { stops: Stop[]; left: string[] }
  t.same(left, [], `${what}: Tab comes to everything`)
  // Behind the last there is the browser itself, and then the first again.
  t.same(
    stops.slice(0, wanted).filter(({ wrong }) => wrong.length > 0),
    [],
    `${what}: each stop can be seen, and follows the one before`
  )
  const session = await page.context().newCDPSession(page)
  const { nodes } = await session.send('Accessibility.getFullAXTree')
  // Of what is no control, the text in it is what is read.
  const parents = new Map(nodes.map(({ nodeId, parentId }) => [nodeId, parentId]))
  const texts = new Set<string>()
  for (const { name, parentId } of nodes)
    if (name?.value) for (let one = parentId; one !== undefined; one = parents.get(one)) texts.add(one)
  const unnamed = nodes.filter(
    ({ nodeId, ignored, name, role, properties = [] }) =>
      !ignored &&
      properties.some((one) => one.name === 'focusable' && one.value.value === true) &&
      String(name?.value ?? '').trim() === '' &&
      !(role?.value === 'generic' ? texts.has(nodeId) : /RootWebArea|main/.test(role?.value))
  )
  t.same(
    unnamed.map(({ role }) => role?.value),
    [],
    `${what}: all have a name`
  )
  await session.detach()
}

/** Waits until a page has drawn what it loads. */
async function settled(page: Page): Promise<void> {
  await page.locator('main h1').first().waitFor()
  await eventually(async () => (await page.locator('main .waiting, main [aria-busy="true"]').count()) === 0, 60_000)
}

t.test('Tab comes to everything on every page', async (t) => {
  const local = await gateway(t, {
    tenants: {
      acme: { budget: { usd: 10, per: 'month', alerts: [50] }, projects: { web: { members: { alice: {} } } } }
    }
  })
  for (let count = 0; count < 3; count++) await local.chat()
  await local.chat({ model: 'none-such' })
  await eventually(async () => (await local.admin('/admin/v1/requests')).data.length === 4)
  const [{ request_id: request }] = (await local.admin('/admin/v1/requests')).data
  const beside = [`requests/${request}`, 'keys/test', 'tenants/acme/web', 'channels/demo', 'models/demo']
  const page = await openPage(t, `${local.adminUrl}/console/`)
  for (const [place, path] of [...places.map((one) => one.path), ...beside].entries()) {
    await page.goto(`${local.adminUrl}/console/${path}`)
    await settled(page)
    await walk(t, page, path, place === 0)
  }
})
