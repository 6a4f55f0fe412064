// The overview in a browser: what is wrong, figures that go on by themselves, over time, paused and cut off, and one
// stream for all tabs.
import t from 'tap'
import { ask, connect } from '../kit/client.ts'
import { accessible, inAllForms, openPage } from '../kit/browser.ts'
import type { Page } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { gateway } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

/** The number in a tile. */
const tile = (page: Page, title: string): Promise<string | null> =>
  page.locator('.tile', { hasText: title }).locator('b').first().textContent()

async function shows(page: Page, title: string, value: string): Promise<void> {
  await eventually(async () => (await tile(page, title)) === value, 30_000)
}

t.test('requests appear by themselves, and troubles with what to do about them', async (t) => {
  const local = await gateway(t)
  const page = await openPage(t, `${local.adminUrl}/console/overview`)
  await page.locator('.live-state', { hasText: 'live' }).waitFor()
  await shows(page, 'Requests', '0')
  for (let i = 0; i < 3; i++) await local.chat()
  await shows(page, 'Requests', '3')
  await local.chat({ model: 'none' })
  await shows(page, 'Errors', '1')
  await page.getByRole('link', { name: /model_not_found/ }).waitFor()
  await page.getByRole('img', { name: /^Requests: .* highest/ }).waitFor()

  await ask(t, local.adminUrl, { method: 'PATCH', path: '/admin/v1/channels/demo', body: { drain: true } })
  const wrong = page.getByRole('region', { name: 'What is wrong now' })
  await wrong.getByText('The model demo has no channel that works').waitFor()
  await inAllForms(page, 'overview', (form) => accessible(t, page, form))
  await wrong.getByRole('link', { name: 'See to it: The channel demo is draining: this machine switched it.' }).click()
  await page.getByRole('heading', { name: 'Channels' }).waitFor()
  t.match(page.url(), /\/console\/channels\/demo$/)
})

t.test('ranges show what was before the page was opened', async (t) => {
  const local = await gateway(t)
  await local.chat()
  await local.chat()
  const page = await openPage(t, `${local.adminUrl}/console/overview?range=1h`)
  await shows(page, 'Requests', '2')
  await page.getByLabel('Range', { exact: true }).selectOption('24h')
  t.match(page.url(), /range=24h/)
  await shows(page, 'Requests', '2')
  await page.getByRole('button', { name: 'Figures' }).first().click()
  await page.getByRole('region', { name: 'Table of figures' }).waitFor()
  await page.getByText('a secret in clear').waitFor()
  await accessible(t, page, 'the figures of a range')
})

t.test('the reader can stop what moves, and go on', async (t) => {
  const local = await gateway(t)
  const page = await openPage(t, `${local.adminUrl}/console/overview`)
  await page.locator('.live-state', { hasText: 'live' }).waitFor()
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.locator('.live-state', { hasText: 'paused' }).waitFor()
  await page.locator('.stale').waitFor()
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.locator('.live-state', { hasText: 'live' }).waitFor()
  await local.chat()
  await shows(page, 'Requests', '1')
})

t.test('all tabs of a browser share one stream', async (t) => {
  const local = await gateway(t)
  const first = await openPage(t, `${local.adminUrl}/console/overview`)
  await first.locator('.live-state', { hasText: 'live' }).waitFor()
  const tabs = [first]
  for (let i = 0; i < 7; i++) {
    const tab = await first.context().newPage()
    await tab.goto(`${local.adminUrl}/console/overview`)
    await tab.locator('.live-state', { hasText: 'live' }).waitFor()
    tabs.push(tab)
  }
  await local.chat()
  for (const tab of tabs) await shows(tab, 'Requests', '1')
  t.equal(await streamsOf(local, t), 1)
})

/** How many streams are open: as many more as four can be opened. */
async function streamsOf(local: LocalGateway, t: Parameters<typeof gateway>[0]): Promise<number> {
  let opened = 0
  for (; opened < 5; opened++) {
    const client = await connect(t, local.adminUrl)
    const { start } = await client.send({ path: '/admin/v1/live' }).head()
    if (start[1] !== '200') break
  }
  return 4 - opened
}

t.test('a page that is cut off says so', async (t) => {
  const local = await gateway(t)
  const page = await openPage(t, `${local.adminUrl}/console/overview`, { expected: [/ERR_|Failed to load/] })
  await page.locator('.live-state', { hasText: 'live' }).waitFor()
  await local.gateway.close()
  await page.locator('.live-state', { hasText: 'not connected' }).waitFor()
  await page.locator('.stale').waitFor()
  await accessible(t, page, 'cut off')
})

t.test('actors of a tenant see what is of it', async (t) => {
  const token = 'the token of the owner'
  const local = await gateway(t, { admin: { token } })
  const made = await ask(t, local.adminUrl, {
    path: '/admin/v1/operators',
    headers: { authorization: `Bearer ${token}` },
    body: { name: 'va', role: 'viewer', tenant: 'acme' }
  })
  const page = await openPage(t, `${local.adminUrl}/console/overview`)
  await page.getByLabel('Token').fill(made.json().token)
  await page.getByLabel('Token').press('Enter')
  await page.locator('.live-state', { hasText: 'live' }).waitFor()
  await page.getByText('What goes through for the tenant acme.').waitFor()
  await local.chat()
  await shows(page, 'Requests', '1')
  t.equal(await page.getByRole('link', { name: 'Channels' }).count(), 0)
})
