// Requests under way by the admin API: what hangs is found, where and since when, and by tenants their own alone.
import { connect as open } from 'node:net'
import t from 'tap'
import { ask, connect } from '../../kit/client.ts'
import { gateway, testKey } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'

const owner = 'the token of the owner'
const path = '/admin/v1/requests/under-way'

t.test('requests that have not ended are found, with what they wait for, by tenants their own', async (t) => {
  const other = 'sk-quokka-0000000000000'
  const local = await gateway(t, {
    admin: { token: owner },
    tenants: { wombat: {}, quokka: {} },
    keys: [
      { name: 'w', key: testKey, tenant: 'wombat' },
      { name: 'q', key: other, tenant: 'quokka' }
    ]
  })
  const call = async (query = '', token = owner, body?: object): Promise<any> => {
    const headers = { authorization: `Bearer ${token}` }
    const where = body ? '/admin/v1/operators' : `${path}${query}`
    return (await ask(t, local.adminUrl, { path: where, headers, ...(body && { method: 'POST', body }) })).json()
  }
  const { token: viewer } = await call('', owner, { name: 'v', role: 'viewer', tenant: 'wombat' })
  const say = async (key: string, directive: object) => {
    const client = await connect(t, local.url)
    const content = `[[simulator ${JSON.stringify(directive)}]]`
    client.send({
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${key}` },
      body: { model: 'demo', messages: [{ role: 'user', content }], stream: true }
    })
    return client
  }
  t.same(await call(), { data: [], next: null })

  const waiting = await say(testKey, { cut: 'stall' })
  await eventually(async () => (await call()).data[0]?.state === 'waiting')
  const answering = await say(other, { cut: 'stall', after_events: 4 })
  await answering.body('data:')
  const slow = open(Number(new URL(local.url).port), '127.0.0.1')
  t.teardown(() => slow.destroy())
  slow.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${testKey}\r\ncontent-length: 100\r\n\r\n{`
  )
  await eventually(async () => (await call()).data.length === 3)

  const { data } = await call()
  t.match(data, [
    { tenant: 'wombat', key: 'w', model: 'demo', channel: 'demo', state: 'waiting', attempts: 1, bytes: 0, events: 0 },
    { tenant: 'quokka', key: 'q', model: 'demo', channel: 'demo', state: 'answering', streamed: true },
    { tenant: 'wombat', key: 'w', model: null, channel: null, state: 'reading', attempts: 0, silent_ms: null }
  ])
  t.ok(data[1].bytes > 0 && data[1].events > 0, 'what was sent is counted')
  t.ok(data[0].age_ms >= data[0].attempt_ms && data[0].attempt_ms >= 0)
  t.ok(data[0].age_ms > data[1].age_ms, 'the oldest comes first')
  await eventually(async () => (await call('?state=answering')).data[0].silent_ms > 300)

  const pages = [await call('?limit=2')]
  pages.push(await call(`?limit=2&cursor=${pages[0].next}`))
  t.same(
    pages.flatMap((page) => page.data.map((one: any) => one.request_id)),
    data.map((one: any) => one.request_id)
  )
  t.equal((await call('?tenant=quokka')).data.length, 1)
  t.equal((await call('?key=w&model=demo')).data.length, 1)
  t.equal((await call('?channel=other')).data.length, 0)

  const own = await call('', viewer)
  t.same(
    own.data.map((one: any) => one.state),
    ['waiting', 'reading']
  )
  t.notMatch(JSON.stringify(own), /quokka|channel|attempt/)
  t.match(await call('?tenant=quokka', viewer), { error: { code: 'role_not_allowed' } })
  t.match(await call('?channel=demo', viewer), { error: { code: 'role_not_allowed' } })

  for (const client of [waiting, answering]) client.close()
  slow.destroy()
  await eventually(async () => (await call()).data.length === 0)
})
