// The label `tenant` of the metrics of cost and tokens: for so many tenants, and no longer than they are there.
import t from 'tap'
import { ask } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'
import { figures } from '../kit/probe.ts'

const secret = (tenant: string): string => `sk-test-${tenant}-0000000000000`

/** The parts of a gateway.yaml with these tenants, each with a key. */
const configOf = (tenants: readonly string[], tenant_label: number): Record<string, unknown> => ({
  tenants: Object.fromEntries(tenants.map((tenant) => [tenant, {}])),
  keys: tenants.map((tenant) => ({ name: tenant, key: secret(tenant), tenant })),
  chain: [
    { auth: {} },
    { quota: {} },
    { route: {} },
    { 'protocol-translate': {} },
    { 'usage-meter': {} },
    { log: { sink: 'none', tenant_label } }
  ]
})

t.test(
  'so many tenants are told apart, the rest are counted together, and what is gone loses its series',
  async (t) => {
    const all = ['acme', 'bits', 'corp', 'deli']
    const running = await gateway(t, configOf(all, 2))
    const { models } = running.gateway.config
    const [model] = models.keys()
    const send = async (tenant: string): Promise<void> => {
      const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] })
      const headers = { authorization: `Bearer ${secret(tenant)}`, 'content-type': 'application/json' }
      const reply = await ask(t, running.url, { method: 'POST', path: '/v1/chat/completions', headers, body })
      t.equal(reply.status, 200, reply.text)
      await running.record(reply)
    }
    /** The tenants that the metric has series of, with `-` for a series without the label. */
    const tenants = async (metric: string): Promise<string[]> => {
      const names = [...(await figures(t, running)).keys()].filter((name) => name.startsWith(`sluice_${metric}{`))
      return [...new Set(names.map((name) => /tenant="(.*?)"/.exec(name)?.[1] ?? '-'))].sort()
    }
    for (const tenant of all) await send(tenant)
    t.same(await tenants('tokens_total'), ['acme', 'bits', 'other'])
    t.equal((await figures(t, running)).get('sluice_log_tenants_dropped_total'), 2)
    t.same(
      await tenants('cost_usd_total'),
      (await tenants('tokens_total')).filter((name) => name !== '')
    )

    running.configure(configOf(['acme', 'corp', 'deli'], 2))
    t.ok((await running.gateway.reload('test')).ok)
    t.same(await tenants('tokens_total'), ['acme', 'other'], 'what is removed goes at once')
    await send('corp')
    t.same(await tenants('tokens_total'), ['acme', 'corp', 'other'])

    running.configure(configOf(['acme', 'corp'], 0))
    await running.gateway.reload('test')
    await send('acme')
    t.same(await tenants('tokens_total'), ['-', 'acme', 'corp', 'other'])
  }
)

t.test('by default no metric tells tenants apart', async (t) => {
  const running = await gateway(t)
  t.equal((await running.chat({ model: [...running.gateway.config.models.keys()][0] })).status, 200)
  t.notOk([...(await figures(t, running)).keys()].some((name) => name.includes('tenant=')))
})
