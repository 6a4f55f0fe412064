// Requests that are only explained leave nothing in the ledger, of sessions neither, and are refused like real ones.
import { join } from 'node:path'
import t from 'tap'
import { query } from '../core/store/embedded/sample.ts'
import { ask } from '../kit/client.ts'
import { gateway, testKey } from '../kit/gateway.ts'

const price = { input: 1, output: 2 }
const body = { messages: [{ role: 'user', content: 'Hi' }] }

t.test('what is explained is in no book, and what is asked is', async (t) => {
  const local = await gateway(t, {
    channels: { demo: { protocol: 'simulator', models: { demo: 'demo' } } },
    models: { demo: { price, context_window: 1000, max_output_tokens: 100 } },
    keys: [
      { name: 'test', key: testKey, tenant: 'acme' },
      { name: 'poor', key: 'sk-poor-00000000000000000', tenant: 'acme', budget: { usd: '0.000000001', per: 'day' } }
    ]
  })
  const explain = async (key: string, endpoint: string): Promise<any> => {
    const asked = { key, endpoint, model: 'demo', ...(endpoint === 'chat' && { body }) }
    const reply = await ask(t, local.adminUrl, { method: 'POST', path: '/admin/v1/explain', body: asked })
    return reply.json()
  }
  for (const endpoint of ['chat', 'realtime']) {
    t.match(await explain('test', endpoint), { outcome: 'sent' }, endpoint)
    const refused = { outcome: 'refused', refusal: { code: 'quota_key_exceeded' } }
    t.match(await explain('poor', endpoint), refused, `${endpoint}, by a key that has spent its budget`)
  }
  const reply = await local.ask({ path: '/v1/chat/completions', body: { model: 'demo', ...body } })
  t.equal(reply.status, 200)
  const { request_id } = await local.record(reply)
  await local.gateway.close()
  const store = join(local.file, '..', 'sluice.db')
  t.same(
    query(store, 'SELECT request_id FROM journal').map((row) => row['request_id']),
    [request_id]
  )
  t.same(query(store, 'SELECT request_id FROM reservation'), [])
})
