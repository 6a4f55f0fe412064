// The page of models and prices in a browser: the catalogue, one model with the versions of its price, and what traffic
// would have cost elsewhere; for operators and for somebody of one tenant.
import t from 'tap'
import { ask } from '../kit/client.ts'
import { accessible, inAllForms, openPage } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { gateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

t.setTimeout(600_000)

const file = {
  channels: {
    demo: { protocol: 'simulator', models: { demo: 'demo', dear: 'demo', closed: 'demo' } },
    spare: { protocol: 'simulator', models: { dear: 'demo' }, priority: 1, enabled: false }
  },
  models: {
    demo: { owned_by: 'sluice', price: { input: 0.5, output: 1.5 }, context_window: 128000, max_output_tokens: 16000 },
    dear: {
      owned_by: 'sluice',
      price: [
        { input: 3, cached_input: 0.3, output: 15, tiers: [{ above: 200000, input: 6, output: 22.5 }] },
        { from: '2999-01-01', input: 2, output: 8 }
      ],
      deprecated: { since: '2026-09-01', sunset: '2999-03-01', replacement: 'demo' }
    },
    closed: { price: { input: 1, output: 1, image: 0.04 } }
  },
  tenants: { acme: { models: ['demo', 'dear'] } }
}

t.test('the catalogue, a model and its prices, and what its traffic would have cost', async (t) => {
  const local = await gateway(t, file)
  for (let n = 0; n < 3; n++) t.equal((await local.chat({ max_tokens: 20 })).status, 200)
  await local.chat({ model: 'dear', max_tokens: 20 })
  await eventually(async () => (await local.admin('/admin/v1/spend')).data[0]?.requests === 4)
  const page = await openPage(t, `${local.adminUrl}/console/models`)
  await page.getByRole('link', { name: 'demo', exact: true }).waitFor()
  await page.getByText('1 of 2 healthy').waitFor()
  await inAllForms(page, 'models', (form) => accessible(t, page, form))
  await page.getByRole('link', { name: 'dear', exact: true }).click()
  const panel = page.getByRole('region', { name: 'Model dear' })
  await panel.getByText('Deprecated since 2026-09-01').waitFor()
  await panel.getByRole('cell', { name: 'input, prompts above 200,000 tokens', exact: true }).waitFor()
  await panel.getByRole('heading', { name: 'From 2999-01-01' }).waitFor()
  await inAllForms(page, 'model', (form) => accessible(t, page, form))
  await panel.getByRole('link', { name: 'What its traffic would have cost elsewhere' }).click()
  await page.getByRole('heading', { name: 'Compare costs' }).waitFor()
  await page.getByRole('row', { name: /^demo/ }).getByText('exact').waitFor()
  await page.getByRole('row', { name: /^dear/ }).getByText('not exact').waitFor()
  t.match(page.url(), /view=compare&model=dear/)
  await page.getByLabel('Traffic of').selectOption('')
  await page.locator('.tile', { hasText: 'Requests' }).getByText('4', { exact: true }).waitFor()
  await inAllForms(page, 'compare', (form) => accessible(t, page, form))
  await page.getByLabel('From (day in UTC)').fill('2020-01-01')
  await page.getByLabel('Up to, not included').fill('2020-01-08')
  await page.getByText('No requests in these days').waitFor()
})

t.test('somebody of a tenant sees what it may use, and no channels', async (t) => {
  const token = 'the token of the owner of this test'
  const local = await gateway(t, { ...file, admin: { token } })
  const made = await ask(t, local.adminUrl, {
    method: 'POST',
    path: '/admin/v1/operators',
    headers: { authorization: `Bearer ${token}` },
    body: { name: 'eve', role: 'viewer', tenant: 'acme' }
  })
  const page = await openPage(t, `${local.adminUrl}/console/models`)
  await page.getByLabel('Token').fill(made.json().token)
  await page.getByLabel('Token').press('Enter')
  await page.getByRole('link', { name: 'demo', exact: true }).click()
  const panel = page.getByRole('region', { name: 'Model demo' })
  await panel.getByRole('heading', { name: 'All versions of the price' }).waitFor()
  const text = await page.locator('main').innerText()
  t.notMatch(text, /closed|spare|Channels/)
  t.equal(await page.getByRole('link', { name: 'Configuration' }).count(), 0)
  await page.getByRole('link', { name: 'Audit' }).click()
  await page.getByRole('heading', { name: 'Audit' }).waitFor()
})
