// What is around the pages of the console: navigation, addresses, the palette, colours, and what a role may see.
import t from 'tap'
import { places } from '../../core/admin/console/app/places.ts'
import { accessible, inAllForms, openPage } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { ask } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

const token = 'the token of the owner of this test'

t.test('the palette goes anywhere by the keyboard, and colours are remembered', async (t) => {
  const { adminUrl } = await gateway(t)
  const page = await openPage(t, `${adminUrl}/console/operators`)
  await page.getByRole('heading', { name: 'Operators' }).waitFor()
  const box = page.getByRole('combobox', { name: 'Page or command' })
  // Keys act from a moment after the page is drawn on.
  const open = (key: string): Promise<void> =>
    eventually(async () => {
      if (!(await box.isVisible())) await page.keyboard.press(key)
      return box.isVisible()
    }, 30_000)
  await open('Control+k')
  await box.fill('col dark')
  await inAllForms(page, 'palette', (form) => accessible(t, page, form))
  await page.keyboard.press('Enter')
  await box.waitFor({ state: 'detached' })
  t.equal(await page.evaluate('document.documentElement.style.colorScheme'), 'dark')
  await page.reload()
  await page.getByRole('heading', { name: 'Operators' }).waitFor()
  t.equal(await page.evaluate('document.documentElement.style.colorScheme'), 'dark', 'after a reload as well')
  await open('?')
  await page.keyboard.press('Escape')
  await box.waitFor({ state: 'detached' })
  await page.keyboard.press('/')
  t.equal(await page.evaluate('document.activeElement.ariaLabel'), 'Filter operators', 'a key goes to the filter')
  await page.keyboard.type('k?/')
  t.equal(await page.getByLabel('Filter operators').inputValue(), 'k?/', 'and in a field keys are text')
})

t.test('an address that is none is told so, and the first page is that of the role', async (t) => {
  const { adminUrl } = await gateway(t)
  const page = await openPage(t, `${adminUrl}/console/`)
  await page.locator('nav a[aria-current="page"]').waitFor()
  t.equal(await page.evaluate('document.activeElement.tagName'), 'BODY', 'the focus is not moved at first')
  const before = page.url()
  await page.goto(`${adminUrl}/console/operators`)
  await page.getByRole('heading', { name: 'Operators' }).waitFor()
  t.match(before, /\/console\/\w+$/)
  t.match(await page.title(), /^Operators/)
})

t.test('an actor of one tenant sees no way to what is of the whole gateway', async (t) => {
  const { adminUrl } = await gateway(t, { admin: { token } })
  const headers = { authorization: `Bearer ${token}` }
  const body = { name: 'carol', role: 'tenant_admin', tenant: 'acme' }
  const made = await ask(t, adminUrl, { method: 'POST', path: '/admin/v1/operators', headers, body })
  const page = await openPage(t, `${adminUrl}/console/operators`)
  await page.getByLabel('Token').fill(made.json().token)
  await page.getByLabel('Token').press('Enter')
  await page.getByText('does not see this page').waitFor()
  t.equal(await page.getByRole('link', { name: 'Operators' }).count(), 0, 'nor a link to it')
  t.match(await page.locator('.bar').textContent(), /carol.*tenant_admin of acme/)
  await accessible(t, page, 'the refusal')
})

t.test('what a page shows first is asked for once, before its modules are there', async (t) => {
  const { adminUrl } = await gateway(t, { admin: { token } })
  const headers = { authorization: `Bearer ${token}` }
  const body = { name: 'carol', role: 'tenant_admin', tenant: 'acme' }
  const made = await ask(t, adminUrl, { method: 'POST', path: '/admin/v1/operators', headers, body })
  for (const [secret, tenant] of [
    [token, undefined],
    [made.json().token, 'acme']
  ]) {
    const page = await openPage(t, `${adminUrl}/console/operators`)
    await page.getByLabel('Token').fill(secret)
    await page.getByLabel('Token').press('Enter')
    await page.locator('.person').waitFor()
    let asked: string[] = []
    page.on('request', (request) => asked.push(request.url().slice(adminUrl.length)))
    for (const { path, title, asks, whole } of places) {
      if (asks === undefined) continue
      const first = tenant === undefined ? asks : `${asks}?tenant=${tenant}`
      asked = []
      // The page waits for none of its modules before it asks.
      const early = !(whole && tenant !== undefined)
      await page.route('**/app/main.ts*', async (route) => {
        await eventually(() => !early || asked.includes(first), 60_000)
        await route.continue()
      })
      await page.goto(`${adminUrl}/console/${path}`)
      await page.getByRole('heading', { name: title, level: 1 }).waitFor()
      await eventually(async () => (await page.locator('main [aria-busy="true"], main .waiting').count()) === 0)
      const times = asked.filter((one) => one === first || one === asks).length
      t.equal(times, early ? 1 : 0, `${path} of ${tenant ?? 'all'}`)
      await page.unroute('**/app/main.ts*')
    }
  }
})

t.test(
  'a page whose script is there no more, after an upgrade, is loaded anew once, and says what is to be done',
  async (t) => {
    const { adminUrl } = await gateway(t)
    const page = await openPage(t, `${adminUrl}/console/`, { expected: [/404/] })
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    let left = 1
    let asked = 0
    await page.route(/\/console\/(?:app\/main\.ts|main-)/, async (route) => {
      asked++
      return left-- > 0 ? route.fulfill({ status: 404, contentType: 'application/json', body: '{}' }) : route.continue()
    })
    await page.reload()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    t.equal(asked, 2)
    left = Infinity
    await page.reload()
    await page.getByText('The console could not be loaded').waitFor()
  }
)

t.test('where the library of the charts cannot be had, their figures are shown', async (t) => {
  const { adminUrl } = await gateway(t)
  const page = await openPage(t, `${adminUrl}/console/`, { expected: [/404/] })
  await page
    .getByRole('img', { name: /^Requests/ })
    .first()
    .waitFor()
  t.equal(await page.getByLabel('Table of figures').count(), 0)
  await page.route(/uPlot|uplot/, (route) => route.fulfill({ status: 404, body: '' }))
  await page.reload()
  await page.getByLabel('Table of figures').first().waitFor()
})
