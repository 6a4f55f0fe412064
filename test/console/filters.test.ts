// The filters of the log in a browser: what a cell has alone or left out, by pointer and by keyboard, names that are
// suggested, and all of it in a narrow window.
import t from 'tap'
import { accessible, openPage } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

const long = 'a-model-that-nobody-has-and-whose-name-is-long'

async function used(t: Parameters<typeof gateway>[0]): Promise<LocalGateway> {
  const local = await gateway(t, {
    tenants: { acme: { projects: { web: { members: { alice: {} }, tags: { team: 'search' } } } } },
    keys: [{ name: 'test', key: testKey, tenant: 'acme', project: 'web', member: 'alice' }]
  })
  await local.chat()
  await local.chat()
  await local.chat({ model: long })
  await eventually(async () => (await local.admin('/admin/v1/requests')).data.length === 3)
  return local
}

t.test('what a cell has is shown alone or left out, by pointer and by keyboard', async (t) => {
  const { adminUrl } = await used(t)
  const page = await openPage(t, `${adminUrl}/console/requests`)
  const cell = page.getByRole('cell', { name: 'demo', exact: true }).first()
  await cell.waitFor()
  t.equal(await page.locator('td button').count(), 0, 'buttons come when they are wanted')
  await cell.hover()
  await page.getByRole('button', { name: 'Not Model demo' }).first().click()
  await page.getByText(/^1 request,/).waitFor()
  t.match(page.url(), /\?not_model=demo$/)
  await page.getByText('Model is not: demo').waitFor()
  await accessible(t, page, 'a filter that leaves out')
  await page.getByRole('button', { name: 'Without Model is not demo' }).click()
  await page.getByText(/^3 requests,/).waitFor()

  // A name that is cut can be come to, and so can what its cell offers.
  await page.locator('td .tip', { hasText: 'a-model-that' }).focus()
  await page.keyboard.press('Tab')
  await page.keyboard.press('Tab')
  const here = page.locator('button:focus')
  t.equal(await here.getAttribute('aria-label'), `Not Model ${long}`)
  t.equal(await page.evaluate('getComputedStyle(document.activeElement.parentElement).opacity'), '1', 'and is seen')
  await page.keyboard.press('Enter')
  await page.getByText(/^2 requests,/).waitFor()
  t.equal(new URL(page.url()).searchParams.get('not_model'), long)
})

t.test('names are suggested, and a filter can be turned round, in a narrow window too', async (t) => {
  const { adminUrl } = await used(t)
  const page = await openPage(t, `${adminUrl}/console/requests`, { width: 360, height: 740 })
  await page.getByText(/^3 requests,/).waitFor()
  const offered = (): Promise<unknown> =>
    page.evaluate("[...document.querySelectorAll('#request-values option')].map(({ value }) => value)")
  for (const [name, values] of [
    ['key', ['test']],
    ['project', ['web']],
    ['member', ['alice']],
    ['tag', ['team', 'team=search']]
  ] as const) {
    await page.getByLabel('What to filter by').selectOption(name)
    await eventually(async () => JSON.stringify(await offered()) === JSON.stringify(values), 60_000)
  }
  await page.getByLabel('What to filter by').focus()
  await page.keyboard.type('Status')
  await page.keyboard.press('Tab')
  await page.keyboard.type('is not')
  await page.keyboard.press('Tab')
  await page.keyboard.type('2xx')
  await page.keyboard.press('Enter')
  await page.getByText(/^1 request,/).waitFor()
  t.match(page.url(), /\?not_status=2xx$/)
  await accessible(t, page, 'filters, narrow')
  await page.getByLabel('What to filter by').selectOption('since')
  t.equal(await page.getByLabel('Whether it is this').count(), 0, 'a bound has no other way round')
})
