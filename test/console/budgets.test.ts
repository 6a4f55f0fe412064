// Budgets in a browser: at which thresholds somebody is alerted, and what was told of them.
import t from 'tap'
import { accessible, inAllForms, openPage } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { Upstream } from '../kit/upstream.ts'
import { chatAnswer } from '../kit/workbench.ts'

t.test('a budget is shown with its alerts, and with what was told of them', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(
    t,
    {
      tenants: { acme: { budget: { usd: 100, per: 'month', alerts: [90] } } },
      keys: [
        { name: 'test', key: testKey, tenant: 'acme', budget: { usd: 1, per: 'day', alerts: [10, 50, 100] } },
        { name: 'still', key: 'sk-still-00000000000000', tenant: 'acme', budget: { usd: 1, per: 'total' } }
      ]
    },
    { upstreams: { a: upstream } }
  )
  type Row = { scope: string; alerts: number[]; told: number | null }
  const told = async (scope: string): Promise<Row> =>
    (await local.admin(`/admin/v1/balances?scope=${scope}`)).data.find((one: Row) => one.alerts.length > 0)
  t.match(await told('key:test'), { alerts: [10, 50, 100], told: null })
  upstream.json(chatAnswer(100_000, 0))
  t.equal((await local.chat({ max_tokens: 1 })).status, 200)
  await eventually(async () => (await told('key:test')).told !== null)
  t.match(await told('key:test'), { alerts: [10, 50, 100], told: 10 })
  t.match(await told('tenant:acme'), { alerts: [90], told: null })
  const { data } = await local.admin('/admin/v1/balances?scope=key:still')
  t.match(data, [{ alerts: [], told: null }])

  const page = await openPage(t, `${local.adminUrl}/console/keys/test`)
  await page.getByText('Alerts at 10, 50 and 100 %: told at 10 %.').waitFor()
  await page.getByText('Alert at 90 %: none told yet.').waitFor()
  await inAllForms(page, 'budgets', (form) => accessible(t, page, form))
})
